"""The log in any batches gives the image of all its records, and no image shows less than its offset says."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType, uuid_text
from proxy.metadata.image import DelegationToken, MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.metadata.scram import ScramCredential, ScramMechanism
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types
from tests.support.metadata_log import (
    acl,
    acl_record,
    owner_record,
    quota_record,
    removed_acl_record,
    removed_token_record,
    removed_topic_record,
    scram_record,
    token,
    token_record,
    topic_record,
    values,
)


@dataclass
class Agreed:
    """What the cluster has agreed on, kept in plain dicts: the naive counterpart of the image."""

    acls: dict[str, Acl] = field(default_factory=dict)
    limits: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    credentials: dict[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=dict)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    topics: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """By name: the id, and what the config `owner` says."""

    def records(self) -> list[Any]:
        """As a snapshot has it: what there is, and nothing of how it came about."""
        return [
            *(acl_record(one) for one in self.acls.values()),
            *(quota_record(e, key, value) for e, keys in self.limits.items() for key, value in keys.items()),
            *(scram_record(mechanism, user, c) for (mechanism, user), c in self.credentials.items()),
            *(token_record(one) for one in self.tokens.values()),
            *(topic_record(name, topic_id) for name, (topic_id, _) in self.topics.items() if topic_id),
            *(owner_record(name, owner) for name, (_, owner) in self.topics.items() if owner),
        ]


ACLS = [
    acl(name, operation, pattern_type=pattern_type, permission_type=permission)
    for name in ("a", "ab", "*")
    for operation in (Operation.READ, Operation.ALL)
    for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    for permission in (PermissionType.ALLOW, PermissionType.DENY)
]
ACLS.append(replace(ACLS[0], until_ms=5_000))
ENTITIES = [
    QuotaEntity(user="u"),
    QuotaEntity(user="u", client_id=DEFAULT),
    QuotaEntity(client_id=DEFAULT),
    QuotaEntity(ip="10.0.0.1"),
]
KEYS = ["producer_byte_rate", "consumer_byte_rate"]
CREDENTIALS = [ScramCredential(bytes([n]), b"stored", b"server", 4096) for n in range(3)]
MECHANISMS = [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512]


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[Any, Agreed]]:
    """Records in order, each with what holds after it."""
    agreed, log = Agreed(), []
    for _ in range(draw(st.integers(0, 40))):
        step = draw(st.sampled_from(STEPS))
        record, agreed = step(draw, agreed)
        log.append((record, agreed))
    return log


def _acl_step(draw: st.DrawFn, agreed: Agreed) -> tuple[Any, Agreed]:
    acls = dict(agreed.acls)
    if draw(st.booleans()) and acls:
        gone = acls.pop(draw(st.sampled_from(sorted(acls))))
        return removed_acl_record(gone), replace(agreed, acls=acls)
    added = draw(st.sampled_from(ACLS))
    acls[added.id] = added
    return acl_record(added), replace(agreed, acls=acls)


def _quota_step(draw: st.DrawFn, agreed: Agreed) -> tuple[Any, Agreed]:
    entity, key = draw(st.sampled_from(ENTITIES)), draw(st.sampled_from(KEYS))
    value = draw(st.sampled_from([None, 1.0, 2.5, 1e6]))
    keys = dict(agreed.limits.get(entity, {}))
    keys.pop(key, None)
    if value is not None:
        keys[key] = value
    limits = {e: k for e, k in {**agreed.limits, entity: keys}.items() if k}
    return quota_record(entity, key, value), replace(agreed, limits=limits)


def _scram_step(draw: st.DrawFn, agreed: Agreed) -> tuple[Any, Agreed]:
    of_whom = draw(st.sampled_from(MECHANISMS)), draw(st.sampled_from(["alice", "bob"]))
    credential = draw(st.sampled_from([None, *CREDENTIALS]))
    credentials = {who: c for who, c in agreed.credentials.items() if who != of_whom}
    if credential is not None:
        credentials[of_whom] = credential
    return scram_record(*of_whom, credential), replace(agreed, credentials=credentials)


def _token_step(draw: st.DrawFn, agreed: Agreed) -> tuple[Any, Agreed]:
    token_id, expiry_ms = draw(st.sampled_from(["t-1", "t-2"])), draw(st.sampled_from([None, 2_000, 3_000]))
    tokens = {id_: one for id_, one in agreed.tokens.items() if id_ != token_id}
    if expiry_ms is None:
        return removed_token_record(token_id), replace(agreed, tokens=tokens)
    tokens[token_id] = token(token_id, expiry_timestamp_ms=expiry_ms, renewers=("User:bob",))
    return token_record(tokens[token_id]), replace(agreed, tokens=tokens)


def _topic_step(draw: st.DrawFn, agreed: Agreed) -> tuple[Any, Agreed]:
    name, topics = draw(st.sampled_from(["t", "u"])), dict(agreed.topics)
    topic_id, owner = topics.pop(name, (None, None))
    kind = draw(st.sampled_from(["topic", "owner", "removal"]))
    if kind == "removal" and topic_id is not None:
        return removed_topic_record(topic_id), replace(agreed, topics=topics)
    if kind == "topic":
        other = uuid_text(bytes([*bytes(14), ord(name), draw(st.integers(1, 2))]))
        # Another topic of the same name has nothing from the one before.
        topics[name] = other, owner if topic_id in (None, other) else None
        return topic_record(name, other), replace(agreed, topics=topics)
    owner = draw(st.sampled_from([None, "User:alice", "User:bob"]))
    if topic_id is not None or owner is not None:
        topics[name] = topic_id, owner
    return owner_record(name, owner), replace(agreed, topics=topics)


STEPS: list[Callable[[st.DrawFn, Agreed], tuple[Any, Agreed]]] = [
    _acl_step,
    _quota_step,
    _scram_step,
    _token_step,
    _topic_step,
]


@st.composite
def batches(draw: st.DrawFn) -> list[list[tuple[Any, Agreed]]]:
    log, cut = draw(logs()), []
    while log:
        size = draw(st.integers(1, len(log)))
        cut.append(log[:size])
        log = log[size:]
    return cut


def agreed_of(image: MetadataImage) -> Agreed:
    limits = {entity: dict(keys) for entity, keys in image.quotas.limits.items()}
    topics = {name: (topic.id, topic.configs.get("owner")) for name, topic in image.topics.by_name.items()}
    return Agreed(
        dict(image.acls.by_id), limits, dict(image.scram.credentials), dict(image.tokens.by_id), topics
    )


def followed(log: list[list[tuple[Any, Agreed]]], high_water_offset: int) -> list[MetadataImage]:
    """Every image that a follower of the log shows."""
    shown: list[MetadataImage] = []
    loader = Loader(lambda image, _: shown.append(image), compacted=False)
    loader.load_until(high_water_offset)
    last_offset = -1
    for batch in log:
        last_offset += len(batch)
        loader.batch(last_offset, values(*(record for record, _ in batch)))
    return shown


def state_at(log: list[list[tuple[Any, Agreed]]], offset: int) -> Agreed:
    flat = [agreed for batch in log for _, agreed in batch]
    return flat[offset] if offset >= 0 else Agreed()


@pytest.mark.spec("S2", "S3", "Q11")
@settings(max_examples=150, deadline=None)
@given(batches(), st.integers(0, 40))
def test_every_image_shown_is_exactly_what_the_log_says_up_to_its_offset(
    log: list[list[tuple[Any, Agreed]]], high_water: int
) -> None:
    shown = followed(log, min(high_water, sum(map(len, log))))

    assert [agreed_of(image) for image in shown] == [state_at(log, image.offset) for image in shown]
    assert [image.offset for image in shown] == sorted({image.offset for image in shown})


@pytest.mark.spec("S5", "S1")
@settings(max_examples=150, deadline=None)
@given(batches(), st.randoms())
def test_a_snapshot_in_any_order_gives_the_image_of_the_log(
    log: list[list[tuple[Any, Agreed]]], shuffler: random.Random
) -> None:
    shown = followed(log, 0)
    end = sum(map(len, log)) - 1
    records = state_at(log, end).records()
    shuffler.shuffle(records)

    loader = Loader(lambda *_: None)
    loader.load_until(end + 1)
    loader.snapshot(end, values(*records))

    assert loader.image == shown[-1]


@pytest.mark.spec("S5")
@settings(max_examples=100, deadline=None)
@given(batches())
def test_reading_the_log_again_gives_the_same_image_and_shows_none_on_the_way(
    log: list[list[tuple[Any, Agreed]]],
) -> None:
    shown: list[MetadataImage] = []
    loader = Loader(lambda image, _: shown.append(image))
    loader.load_until(0)
    end = sum(map(len, log))
    for again in (False, True):
        if again:
            before = list(shown)
            loader.reload_until(end)
        last_offset = -1
        for batch in log:
            last_offset += len(batch)
            loader.batch(last_offset, values(*(record for record, _ in batch)))

    assert shown[: len(before)] == before
    assert [image == before[-1] for image in shown[len(before) :]] == [True]


@pytest.mark.spec("A6")
@settings(max_examples=150, deadline=None)
@given(batches())
def test_who_owns_which_topics_is_the_same_asked_from_either_side(
    log: list[list[tuple[Any, Agreed]]],
) -> None:
    for image in followed(log, 0):
        topics = image.topics
        by_topic = {(topics.owner(name), name) for name in topics.by_name if topics.owner(name)}
        by_owner = {(owner, name) for owner, names in topics.owned.items() for name, _ in names}
        ids = {topic.id: name for name, topic in topics.by_name.items() if topic.id}

        assert by_owner == by_topic
        assert dict(topics.names_by_id) == ids


@pytest.mark.spec("S2")
@settings(max_examples=150, deadline=None)
@given(batches(), st.data())
def test_a_metadata_transaction_is_seen_whole_or_not_at_all(
    log: list[list[tuple[Any, Agreed]]], data: st.DataObject
) -> None:
    records = [record for batch in log for record, _ in batch]
    begin = data.draw(st.integers(0, len(records)))
    end = data.draw(st.integers(begin, len(records)))
    aborted = data.draw(st.booleans())
    mark = types.AbortTransactionRecord if aborted else types.EndTransactionRecord
    marked = [*records[:begin], types.BeginTransactionRecord(), *records[begin:end], mark()]
    whole = {-1 if n == 0 else n - 1 for n in [*range(begin + 1), end]}
    wanted = [state_at(log, offset) for offset in (whole - {end - 1} if aborted else whole) | {begin - 1}]

    shown: list[MetadataImage] = []
    loader = Loader(lambda image, _: shown.append(image), compacted=False)
    loader.load_until(0)
    for offset, record in enumerate(marked):
        loader.batch(offset, values(record))

    assert all(agreed_of(image) in wanted for image in shown)
    assert agreed_of(shown[-1]) == state_at(log, (begin if aborted else end) - 1)


@pytest.mark.spec("S2")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["foo", "f", "*"]), st.booleans()), max_size=6), st.data())
def test_no_image_allows_what_a_deny_earlier_in_the_log_forbids(
    around: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """KIP-801's example: deny bob on foo, then allow bob everywhere, among other records in any batches."""
    deny = acl("foo", principal="User:bob", permission_type=PermissionType.DENY)
    allow = acl("*", principal="User:bob")
    others = [
        acl(
            name, principal="User:bob", pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL
        )
        for name, prefixed in around
    ]
    at = data.draw(st.integers(0, len(others)))
    log = [deny, *others[:at], allow, *others[at:]]
    sizes = data.draw(st.lists(st.integers(1, len(log)), max_size=len(log)))
    authorizer = StandardAuthorizer()
    authorizer.configure({})

    def refused(image: MetadataImage, _: tuple[str, ...]) -> None:
        context = RequestContext(Principal("User", "bob"), "10.0.0.1", "L", None, image=image)
        (decision,) = authorizer.authorize(context, [Action(Operation.READ, ResourceType.TOPIC, "foo")])
        assert not decision.allowed

    loader = Loader(refused)
    loader.load_until(0)
    position = 0
    for size in [*sizes, len(log)]:
        piece = log[position : position + size]
        position += len(piece)
        if piece:
            loader.batch(position - 1, values(*(acl_record(one) for one in piece)))

    assert loader.image.acls.count == len(log)
