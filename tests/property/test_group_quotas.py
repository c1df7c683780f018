"""Which quota governs a member of groups, compared with a slow and obvious model, also after changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity, sanitize
from proxy.quota.precedence import governing
from proxy.quota.throttle import ClientQuotas
from tests.session.conversation import Quotas
from tests.support.metadata_log import quota_record

pytestmark = pytest.mark.spec("Q2", "Q4", "A8")

KEYS = ("producer_byte_rate", "consumer_byte_rate")
USERS = ("alice", "bob", "Group:g", "g")
GROUPS = ("Group:g", "b:c", "g", "h ")
CLIENTS = ("app", "app2")
ENTITIES = st.builds(
    QuotaEntity,
    st.sampled_from([*USERS, *(f"Group:{name}" for name in GROUPS), DEFAULT]),
    st.sampled_from([None, DEFAULT, *CLIENTS]),
) | st.builds(QuotaEntity, st.none(), st.sampled_from([DEFAULT, *CLIENTS]))
CHANGES = st.lists(
    st.tuples(ENTITIES, st.sampled_from(KEYS), st.none() | st.sampled_from([1.0, 2.0, 3.0])), max_size=25
)
SESSIONS = st.tuples(
    st.sampled_from(USERS),
    st.sets(st.sampled_from(GROUPS)).map(lambda groups: tuple(sorted(groups))),
    st.sampled_from(["", *CLIENTS]),
)
Found = tuple[float, str, str]
"""Limit, path of the entity, quota-id."""


def modelled(
    limits: dict[tuple[QuotaEntity, str], float], user: str, groups: tuple[str, ...], client: str, key: str
) -> Found | None:
    """Go through all limits, put those that may govern in order, and take the first."""

    def place(entity: QuotaEntity) -> tuple[int, int, float, str, str] | None:
        """The order of this entity, with the quota-id; None if it is not for this session."""
        of_client = {client: 0, DEFAULT: 1, None: 2}.get(entity.client_id)
        if of_client is None or (not client and of_client < 2):
            return None
        name = "" if of_client == 2 else client
        if entity.user is None:
            return (3, of_client, 0.0, "", f":{name}")
        if entity.user == user:
            return (0, of_client, 0.0, "", f"{sanitize(user)}:{name}")
        if entity.user is DEFAULT:
            return (2, of_client, 0.0, "", f"{sanitize(user)}:{name}")
        group = str(entity.user)[len("Group:") :]
        if not str(entity.user).startswith("Group:") or group not in groups:
            return None
        return (1, of_client, -limits[entity, key], group, f"{sanitize(user)}@{sanitize(group)}:{name}")

    may = [(order, entity) for entity, of in limits if of == key and (order := place(entity))]
    if not may:
        return None
    order, entity = min(may, key=lambda each: each[0])
    return limits[entity, key], entity.path, order[4]


@given(CHANGES, CHANGES, st.lists(SESSIONS, min_size=1, max_size=4))
def test_each_session_has_the_quota_of_its_groups_whatever_other_sessions_have(
    first: list[tuple[QuotaEntity, str, float | None]],
    then: list[tuple[QuotaEntity, str, float | None]],
    sessions: list[tuple[str, tuple[str, ...], str]],
) -> None:
    limits: dict[tuple[QuotaEntity, str], float] = {}
    image, buckets = MetadataImage.EMPTY, ClientQuotas(Quotas())
    for changes in (first, then):
        delta = MetadataDelta(image)
        for entity, key, limit in changes:
            delta.replay(quota_record(entity, key, limit))
            limits.pop((entity, key), None)
            if limit is not None:
                limits[entity, key] = limit
        image = delta.apply(image.offset + 1)
        named = {str(entity.user) for entity, _ in limits} - {"None"}
        assert {f"Group:{name}" for name in image.quotas.entities_of_group} == {
            name for name in named if name.startswith("Group:")
        }
        held = [
            (session, key, buckets.bucket(key, image.quotas, session[0], session[2], groups=session[1]))
            for session in sessions
            for key in KEYS
        ]
        # Once all sessions have their buckets, none has changed that of another.
        for (user, groups, client), key, bucket in held:
            expected = modelled(limits, user, groups, client, key)
            if expected is None:
                assert not bucket.limited
                continue
            assert bucket.entity is not None
            assert (bucket.limit, bucket.entity.path, bucket.quota_id) == expected
            found = governing(image.quotas, user, client, key, groups=groups)
            assert found is not None
            assert (found.limit, found.entity, found.quota_id) == (
                bucket.limit,
                bucket.entity,
                bucket.quota_id,
            )
