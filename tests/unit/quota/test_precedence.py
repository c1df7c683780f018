"""Which quota governs: every set of configured levels, and the samples of KIP-55."""

from itertools import product

import pytest

from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import DEFAULT, Name, QuotaEntity
from proxy.quota.precedence import Governing, governing
from tests.support.metadata_log import quota_record, quotas_image

KEY = "producer_byte_rate"
OTHER_KEY = "consumer_byte_rate"

# KIP-55's order with user + default client-id, as Kafka has it: the first that is set wins.
LEVELS = [
    (QuotaEntity(user="user", client_id="client"), "user:client"),
    (QuotaEntity(user="user", client_id=DEFAULT), "user:client"),
    (QuotaEntity(user="user"), "user:"),
    (QuotaEntity(user=DEFAULT, client_id="client"), "user:client"),
    (QuotaEntity(user=DEFAULT, client_id=DEFAULT), "user:client"),
    (QuotaEntity(user=DEFAULT), "user:"),
    (QuotaEntity(client_id="client"), ":client"),
    (QuotaEntity(client_id=DEFAULT), ":client"),
]
STATIC_DEFAULT = 99.0

# Of a session in the groups g and h: theirs come before those of the default user.
LEVELS_OF_A_MEMBER = [
    *LEVELS[:3],
    (QuotaEntity(user="Group:g", client_id="client"), "user@g:client"),
    (QuotaEntity(user="Group:g", client_id=DEFAULT), "user@g:client"),
    (QuotaEntity(user="Group:g"), "user@g:"),
    *LEVELS[3:],
]

# Entities that look alike and must never govern this client.
STRANGERS = {
    QuotaEntity(user="other", client_id="client"): {KEY: 1.5},
    QuotaEntity(user="user", client_id="other"): {KEY: 1.5},
    QuotaEntity(user="other"): {KEY: 1.5},
    QuotaEntity(user="client"): {KEY: 1.5},
    QuotaEntity(client_id="user"): {KEY: 1.5},
    QuotaEntity(user="<default>"): {KEY: 1.5},
    QuotaEntity(client_id="<default>"): {KEY: 1.5},
    QuotaEntity(ip="client"): {KEY: 1.5},
    QuotaEntity(ip=DEFAULT): {KEY: 1.5},
}


# Who asks, and by which of the levels they can be governed at all.
CLIENTS = {
    ("user", "client"): range(8),
    ("user", "unknown"): (1, 2, 4, 5, 7),
    ("stranger", "client"): (3, 4, 5, 6, 7),
    ("stranger", "unknown"): (4, 5, 7),
}
EVERY_KEY = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


@pytest.mark.spec("Q1", "Q2", "Q3", "Q4")
@pytest.mark.parametrize("key", EVERY_KEY)
@pytest.mark.parametrize("static_default", [None, STATIC_DEFAULT])
@pytest.mark.parametrize(("user", "client_id"), CLIENTS)
def test_of_every_set_of_configured_levels_the_most_specific_one_governs_whoever_it_is_for(
    user: str, client_id: str, static_default: float | None, key: str
) -> None:
    others = {other: 1.5 for other in EVERY_KEY if other != key}
    for configured in product((False, True), repeat=len(LEVELS)):
        # A level that is not set for this key limits all others: that shadows nothing.
        of_levels = {
            entity: others | ({key: 10.0 + i} if configured[i] else {})
            for i, (entity, _) in enumerate(LEVELS)
        }
        strangers = {entity: {key: 1.5} for entity in STRANGERS}

        found = governing(quotas_image({**strangers, **of_levels}), user, client_id, key, static_default)

        first = next((i for i in CLIENTS[user, client_id] if configured[i]), None)
        if first is not None:
            entity, shared_by = LEVELS[first]
            quota_id = shared_by.replace("user", user).replace("client", client_id)
            assert found is not None
            assert (found.limit, found.entity, found.quota_id) == (10.0 + first, entity, quota_id)
        elif static_default is not None:
            assert found == Governing(STATIC_DEFAULT, None, "", client_id)
        else:
            assert found is None


@pytest.mark.spec("Q2", "Q3", "Q4", "A8")
@pytest.mark.parametrize(
    ("client_id", "groups"),
    [("client", ("g", "h")), ("client", ("a", "g")), ("client", ()), ("", ("g",))],
)
def test_of_every_set_of_levels_the_most_specific_one_governs_a_member_of_groups(
    client_id: str, groups: tuple[str, ...]
) -> None:
    """h has a quota of another key, and a has none."""
    others = {QuotaEntity(user="Group:h"): {OTHER_KEY: 1.0}, QuotaEntity(user="Group:other"): {KEY: 1.5}}
    for configured in product((False, True), repeat=len(LEVELS_OF_A_MEMBER)):
        levels = [level for level, is_set in zip(LEVELS_OF_A_MEMBER, configured, strict=True) if is_set]
        limits = {entity: {KEY: 10.0 + place} for place, (entity, _) in enumerate(levels)}

        found = governing(quotas_image({**others, **limits}), "user", client_id, KEY, groups=groups)

        expected = None
        for place, (entity, quota_id) in enumerate(levels):
            is_of_group = str(entity.user).startswith("Group:")
            if (client_id or entity.client_id is None) and (not is_of_group or "g" in groups):
                expected = 10.0 + place, entity, quota_id
                break
        assert (found and (found.limit, found.entity, found.quota_id)) == expected


@pytest.mark.spec("Q2", "A8")
@pytest.mark.parametrize(
    ("limits", "governs"),
    [
        ({"g": 1.0, "h": 2.0}, "h"),
        ({"g": 2.0, "h": 1.0}, "g"),
        ({"g": 2.0, "h": 2.0}, "g"),
        ({"h": 1.0, "stranger": 9.0}, "h"),
        ({"g": 2.0, "Group:h": 9.0, "G": 9.0}, "g"),
    ],
)
@pytest.mark.parametrize("client_id", [None, DEFAULT, "client"])
def test_the_highest_limit_of_several_groups_governs_and_of_equal_ones_the_first_group(
    client_id: Name, limits: dict[str, float], governs: str
) -> None:
    of_groups = {QuotaEntity(f"Group:{name}", client_id): {KEY: limit} for name, limit in limits.items()}
    # No limit of another level, however high, counts.
    of_others = {QuotaEntity(user=DEFAULT): {KEY: 99.0}}
    if client_id is not None:
        of_others[QuotaEntity(user="Group:h")] = {KEY: 99.0}

    found = governing(quotas_image(of_groups | of_others), "user", "client", KEY, groups=("g", "h"))

    assert found is not None
    assert (found.limit, found.entity) == (limits[governs], QuotaEntity(f"Group:{governs}", client_id))
    assert found.user_tag == f"user@{governs}"


@pytest.mark.spec("Q4", "A8")
def test_each_member_has_a_bucket_of_its_own_and_one_for_each_group_that_governs() -> None:
    of_groups = {QuotaEntity(user="Group:a b"): {KEY: 1.0}, QuotaEntity(user="Group:c"): {KEY: 2.0}}
    quotas = quotas_image(of_groups | {QuotaEntity(user=DEFAULT): {KEY: 5.0}})
    sessions = [("alice", ("a b",)), ("bob", ("a b",)), ("alice", ("c",)), ("alice", ()), ("alice@c", ())]

    found = [governing(quotas, user, "client", KEY, groups=groups) for user, groups in sessions]

    assert [each.quota_id for each in found if each] == [
        "alice@a%20b:",
        "bob@a%20b:",
        "alice@c:",
        "alice:",
        "alice%40c:",
    ]


@pytest.mark.spec("Q2", "A8")
def test_the_quota_of_a_group_is_also_that_of_a_user_with_its_name() -> None:
    quotas = quotas_image({QuotaEntity(user="Group:g"): {KEY: 1.0}, QuotaEntity(user=DEFAULT): {KEY: 5.0}})

    found = governing(quotas, "Group:g", "client", KEY)

    assert found == Governing(1.0, QuotaEntity(user="Group:g"), "Group%3Ag", "")


@pytest.mark.spec("A8")
def test_an_image_knows_which_groups_have_quotas() -> None:
    both = {
        QuotaEntity(user="Group:g"): {KEY: 1.0},
        QuotaEntity("Group:g", DEFAULT): {KEY: 1.0, OTHER_KEY: 2.0},
    }
    limits = both | {
        QuotaEntity(user="Group:h", client_id="c"): {KEY: 1.0},
        QuotaEntity(user="g"): {KEY: 1.0},
    }
    delta = MetadataDelta(MetadataImage.EMPTY)
    for entity, keys in limits.items():
        for key, limit in keys.items():
            delta.replay(quota_record(entity, key, limit))
    image = delta.apply(7)
    delta = MetadataDelta(image)
    for entity in (*limits, QuotaEntity(user="Group:none")):
        delta.replay(quota_record(entity, KEY, None))
    delta.replay(quota_record(QuotaEntity(user="Group:i"), KEY, 1.0))

    assert dict(image.quotas.entities_of_group) == {"g": 2, "h": 1}
    assert dict(delta.apply(8).quotas.entities_of_group) == {"g": 1, "i": 1}


@pytest.mark.spec("Q3")
@pytest.mark.parametrize("specific", range(len(LEVELS) - 1))
def test_an_entity_that_limits_another_key_shadows_nothing(specific: int) -> None:
    quotas = quotas_image({LEVELS[specific][0]: {OTHER_KEY: 1.0}, LEVELS[-1][0]: {KEY: 2.0}})

    found = governing(quotas, "user", "client", KEY)

    assert found is not None
    assert (found.limit, found.entity) == (2.0, LEVELS[-1][0])


# The sample configuration of KIP-55.
SAMPLE = quotas_image(
    {
        QuotaEntity(user=DEFAULT): {KEY: 10000.0, OTHER_KEY: 20000.0},
        QuotaEntity(user="user1"): {KEY: 1024.0, OTHER_KEY: 2048.0},
        QuotaEntity(user="user2"): {KEY: 4096.0, OTHER_KEY: 8192.0},
        QuotaEntity(user="user2", client_id="clientA"): {KEY: 10.0, OTHER_KEY: 30.0},
        QuotaEntity(user="user2", client_id="clientB"): {KEY: 20.0, OTHER_KEY: 40.0},
        QuotaEntity(client_id="clientA"): {KEY: 100.0, OTHER_KEY: 200.0},
    }
)
WITHOUT_USER_DEFAULT = quotas_image(
    {entity: dict(keys) for entity, keys in SAMPLE.limits.items() if entity != QuotaEntity(user=DEFAULT)}
)


@pytest.mark.spec("Q2", "Q4")
@pytest.mark.parametrize(
    ("user", "client_id", "produce", "fetch", "quota_id"),
    [
        ("user1", "clientA", 1024.0, 2048.0, "user1:"),
        ("user1", "clientC", 1024.0, 2048.0, "user1:"),
        ("user2", "clientA", 10.0, 30.0, "user2:clientA"),
        ("user2", "clientB", 20.0, 40.0, "user2:clientB"),
        ("user2", "clientC", 4096.0, 8192.0, "user2:"),
        ("user3", "clientA", 10000.0, 20000.0, "user3:"),
    ],
)
def test_the_samples_of_the_kip(
    user: str, client_id: str, produce: float, fetch: float, quota_id: str
) -> None:
    found = [governing(SAMPLE, user, client_id, key) for key in (KEY, OTHER_KEY)]

    assert [(g.limit, g.quota_id) for g in found if g] == [(produce, quota_id), (fetch, quota_id)]


@pytest.mark.spec("Q2", "Q4")
def test_without_a_default_user_quota_the_client_id_counts_over_all_users() -> None:
    of_client_a = governing(WITHOUT_USER_DEFAULT, "user3", "clientA", KEY, 5000.0)
    of_client_b = governing(WITHOUT_USER_DEFAULT, "user3", "clientB", KEY, 5000.0)

    assert of_client_a == Governing(100.0, QuotaEntity(client_id="clientA"), "", "clientA")
    assert of_client_b == Governing(5000.0, None, "", "clientB")
    assert of_client_b.quota_id == ":clientB"


@pytest.mark.spec("Q5")
def test_limits_are_looked_up_by_the_raw_name_and_shown_by_the_sanitised_one() -> None:
    name = "CN=a b,O=*"
    quotas = quotas_image({QuotaEntity(user=name, client_id="a:b c"): {KEY: 1.0}})

    found = governing(quotas, name, "a:b c", KEY)

    assert found is not None
    assert found.quota_id == "CN%3Da%20b%2CO%3D%2A:a:b c"


@pytest.mark.spec("Q5")
def test_a_session_without_authentication_is_governed_as_anonymous() -> None:
    quotas = quotas_image({QuotaEntity(user="ANONYMOUS"): {KEY: 7.0}})

    found = governing(quotas, None, "client", KEY)

    assert found is not None
    assert (found.limit, found.quota_id) == (7.0, "ANONYMOUS:")


@pytest.mark.spec("Q2")
@pytest.mark.parametrize("client_id", [None, ""])
@pytest.mark.parametrize(
    ("entity", "governs"),
    [
        (QuotaEntity(user="user", client_id=DEFAULT), False),
        (QuotaEntity(user=DEFAULT, client_id=DEFAULT), False),
        (QuotaEntity(client_id=DEFAULT), False),
        (QuotaEntity(user=DEFAULT), True),
        (QuotaEntity(user="user"), True),
    ],
)
def test_a_client_without_a_client_id_has_only_the_quotas_of_users_as_in_kafka(
    client_id: str | None, entity: QuotaEntity, governs: bool
) -> None:
    found = governing(quotas_image({entity: {KEY: 3.0}}), "user", client_id, KEY)

    assert found == (Governing(3.0, entity, "user", "") if governs else None)
    assert governing(quotas_image({}), "user", client_id, KEY, 7.0) == Governing(7.0, None, "", "")


@pytest.mark.spec("Q2", "Q5")
@pytest.mark.parametrize("client_id", ["client", "", None])
def test_a_user_without_a_name_has_the_quotas_of_its_client_id_only(client_id: str | None) -> None:
    of_users = {entity: {KEY: 1.0} for entity, _ in LEVELS if entity.user is not None}
    of_users[QuotaEntity(user="Group:user")] = {KEY: 1.0}
    of_clients = {QuotaEntity(client_id="client"): {KEY: 2.0}, QuotaEntity(client_id=DEFAULT): {KEY: 3.0}}

    assert governing(quotas_image(of_users), "", client_id, KEY, groups=("user",)) is None
    found = governing(quotas_image(of_users | of_clients), "", client_id, KEY)
    expected = Governing(2.0, QuotaEntity(client_id="client"), "", "client") if client_id else None
    assert found == expected
    only_default = quotas_image(of_users | {QuotaEntity(client_id=DEFAULT): {KEY: 3.0}})
    found = governing(only_default, "", client_id, KEY)
    assert found == (Governing(3.0, QuotaEntity(client_id=DEFAULT), "", "client") if client_id else None)
