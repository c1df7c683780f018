"""Cases in which one request stands on the answer to another: groups, transactions, fetch sessions, changes.

Each scenario makes the steps of a case out of randomness; what a side answered is put into its later requests
(`bind`), as member ids, generations, producer ids and session ids differ from side to side.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from proxy.metadata.acl import Operation as Op
from proxy.metadata.acl import ResourceType as Kind
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.differential.cases import USERS, Bind, Case, Served, Step, versions_of
from tests.lab.differential.choice import record_batch
from tests.lab.differential.filling import Filler
from tests.lab.differential.naming import READ_TOPICS, Names, topic_id
from tests.lab.differential.rights import Rule, random_rule, random_rules
from tests.lab.side_by_side.dialogue import Alter, Heard, Outcome
from tests.lab.side_by_side.sides import ADMIN
from tests.support.acl_filters import describe_acls

PIPELINED = "requests at once"
Answers = Sequence[Outcome | None]


class Scene:
    """What a scenario builds its steps with."""

    def __init__(self, seed: int, number: int, served: Served) -> None:
        self.random = Random(f"{seed}/{number}")
        self.names = Names(number)
        self.user = self.random.choice(USERS)
        self.steps: list[Step] = []
        self._served = served

    def version(self, key: int, least: int = 0) -> int:
        """Any, above all the lowest and the highest, but none below `least`."""
        low, high = self._served[key]
        return max(self.random.choice(versions_of(key, {key: (max(low, least), high)})), least)

    def serves(self, key: int) -> bool:
        return key in self._served

    def asks(self, key: int, version: int, message: Any, bind: Bind | None = None, **more: Any) -> int:
        """A step; gives its place."""
        self.steps.append(Step(more.pop("user", self.user), key, version, message, bind, **more))
        return len(self.steps) - 1

    def changes_acls(self, rule: Rule) -> None:
        """Admin adds a rule; what follows is asked once both sides have it."""
        creation = types.CreateAclsRequest(creations=[rule.creation()])
        self.asks(ApiKey.CREATE_ACLS, 3, creation, user=ADMIN)
        self.asks(ApiKey.DESCRIBE_ACLS, 3, describe_acls(), user=ADMIN, settles=True)


def said(heard: Answers, place: int, attribute: str, otherwise: Any) -> Any:
    """A field of what was answered at a step, where there was an answer."""
    outcome = heard[place]
    return getattr(outcome.message, attribute) if isinstance(outcome, Heard) else otherwise


def classic_group(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """Join, sync, heartbeat, commit, describe, leave."""
    group = scene.names.new_groups[0]
    request = types.JoinGroupRequest
    join = request(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[request.JoinGroupRequestProtocol(name="range", metadata=b"what")],
    )
    version = scene.version(ApiKey.JOIN_GROUP)
    first = scene.asks(ApiKey.JOIN_GROUP, version, join)

    def with_member(message: Any, heard: Answers) -> None:
        message.member_id = said(heard, first, "member_id", "")

    # From v4 on the first answer only gives out the member id; before that the member has joined already.
    joined = scene.asks(ApiKey.JOIN_GROUP, version, join, with_member) if version >= 4 else first

    def as_member(message: Any, heard: Answers) -> None:
        message.member_id = said(heard, joined, "member_id", "")
        if hasattr(message, "generation_id"):
            message.generation_id = said(heard, joined, "generation_id", -1)

    def assigning(message: Any, heard: Answers) -> None:
        as_member(message, heard)
        message.assignments[0].member_id = message.member_id

    sync = types.SyncGroupRequest
    parts = [sync.SyncGroupRequestAssignment(assignment=b"all of it")]
    version = scene.version(ApiKey.SYNC_GROUP)
    synced = sync(group_id=group, assignments=parts)
    if version >= 5:
        synced.protocol_type, synced.protocol_name = "consumer", "range"
    scene.asks(ApiKey.SYNC_GROUP, version, synced, assigning)
    scene.asks(
        ApiKey.HEARTBEAT, scene.version(ApiKey.HEARTBEAT), types.HeartbeatRequest(group_id=group), as_member
    )
    described = types.DescribeGroupsRequest(groups=[group])
    scene.asks(ApiKey.DESCRIBE_GROUPS, scene.version(ApiKey.DESCRIBE_GROUPS), described)
    scene.asks(ApiKey.LEAVE_GROUP, 2, types.LeaveGroupRequest(group_id=group), as_member)
    scene.asks(ApiKey.DESCRIBE_GROUPS, scene.version(ApiKey.DESCRIBE_GROUPS), described)
    return (Kind.GROUP,), (Op.READ, Op.DESCRIBE)


def consumer_group(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """KIP-848: join, describe, leave."""
    group, member = scene.names.new_groups[0], "AAAAAAAAAAAAAAAAAAAAAA"
    beat = types.ConsumerGroupHeartbeatRequest
    joining = beat(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=scene.random.sample(sorted(READ_TOPICS), 2),
        topic_partitions=[],
    )
    scene.asks(ApiKey.CONSUMER_GROUP_HEARTBEAT, scene.version(ApiKey.CONSUMER_GROUP_HEARTBEAT), joining)
    asked = types.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    version = scene.version(ApiKey.CONSUMER_GROUP_DESCRIBE)
    scene.asks(ApiKey.CONSUMER_GROUP_DESCRIBE, version, asked)
    listed = types.ListGroupsRequest()
    scene.asks(ApiKey.LIST_GROUPS, scene.version(ApiKey.LIST_GROUPS), listed)
    leaving = beat(group_id=group, member_id=member, member_epoch=-1)
    scene.asks(ApiKey.CONSUMER_GROUP_HEARTBEAT, scene.version(ApiKey.CONSUMER_GROUP_HEARTBEAT), leaving)
    return (Kind.GROUP, Kind.GROUP, Kind.TOPIC), (Op.READ, Op.DESCRIBE)


def groups_of_all_kinds(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """Groups of two protocols with a member each, and what every API says of them and of the others."""
    with_offsets, (consumers, others) = scene.names.own_groups, scene.names.new_groups
    topics = scene.random.sample(sorted(READ_TOPICS), 2)
    for leaves in (False, True):
        epoch = -1 if leaves else 0
        beat = types.ConsumerGroupHeartbeatRequest(
            group_id=consumers,
            member_id=_MEMBER,
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
        scene.asks(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, beat, user=ADMIN)
        if scene.serves(ApiKey.STREAMS_GROUP_HEARTBEAT):
            key, message = _heartbeat(scene, others, topics, epoch)
            scene.asks(key, scene.version(key), message, user=ADMIN)
        asked = scene.random.sample((*with_offsets, consumers, others), 3)
        requests = _about_groups(scene, [*asked, asked[0]], topics)
        for key, message in scene.random.sample(requests, min(5, len(requests))):
            # A coordinator assigns a moment after a heartbeat.
            scene.asks(key, scene.version(key), message, settles=True)
        deletion = types.DeleteGroupsRequest(groups_names=[*asked, asked[0]])
        scene.asks(ApiKey.DELETE_GROUPS, scene.version(ApiKey.DELETE_GROUPS), deletion)
    return (Kind.GROUP, Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ, Op.DELETE, Op.ALL)


_MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


def _heartbeat(scene: Scene, group: str, topics: list[str], epoch: int) -> tuple[ApiKey, Any]:
    """Of a member of a share group or of a Streams group."""
    if scene.names.number % 2:
        return ApiKey.SHARE_GROUP_HEARTBEAT, types.ShareGroupHeartbeatRequest(
            group_id=group, member_id=_MEMBER, member_epoch=epoch, subscribed_topic_names=topics
        )
    streams = types.StreamsGroupHeartbeatRequest
    parts = [streams.Subtopology(subtopology_id="0", source_topics=topics)]
    return ApiKey.STREAMS_GROUP_HEARTBEAT, streams(
        group_id=group,
        member_id=_MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        process_id="p",
        topology=streams.Topology(epoch=1, subtopologies=parts) if epoch == 0 else None,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def _about_groups(scene: Scene, groups: list[str], topics: list[str]) -> list[tuple[ApiKey, Any]]:
    """Requests about groups, of the APIs that both sides have."""
    offsets, fetched = types.DescribeShareGroupOffsetsRequest, types.OffsetDeleteRequest
    of_topics = [offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=n, partitions=[0]) for n in topics]
    wanted = [offsets.DescribeShareGroupOffsetsRequestGroup(group_id=g, topics=None) for g in groups]
    wanted[0].topics = of_topics
    deleted = [
        fetched.OffsetDeleteRequestTopic(
            name=name, partitions=[fetched.OffsetDeleteRequestPartition(partition_index=0)]
        )
        for name in topics
    ]
    gone = types.DeleteShareGroupOffsetsRequest
    requests = [
        (ApiKey.LIST_GROUPS, types.ListGroupsRequest()),
        (ApiKey.DESCRIBE_GROUPS, types.DescribeGroupsRequest(groups=groups)),
        *(
            (key, request(group_ids=groups, include_authorized_operations=scene.random.random() < 0.5))
            for key, request in (
                (ApiKey.CONSUMER_GROUP_DESCRIBE, types.ConsumerGroupDescribeRequest),
                (ApiKey.SHARE_GROUP_DESCRIBE, types.ShareGroupDescribeRequest),
                (ApiKey.STREAMS_GROUP_DESCRIBE, types.StreamsGroupDescribeRequest),
            )
        ),
        (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets(groups=wanted)),
        (ApiKey.OFFSET_DELETE, fetched(group_id=groups[0], topics=deleted)),
        (
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            gone(
                group_id=groups[1],
                topics=[gone.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
            ),
        ),
    ]
    return [(key, request) for key, request in requests if scene.serves(key)]


def transaction(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """A producer that reads its offsets from a group and writes to two topics, and what others see of it."""
    name, group, topic = scene.names.transactional_ids[0], scene.names.new_groups[0], "t-sink"
    init = types.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10_000)
    begun = scene.asks(ApiKey.INIT_PRODUCER_ID, scene.version(ApiKey.INIT_PRODUCER_ID), init)

    def as_producer(message: Any, heard: Answers) -> None:
        prefix = "v3_and_below_" if hasattr(message, "v3_and_below_topics") else ""
        setattr(message, f"{prefix}producer_id", said(heard, begun, "producer_id", -1))
        setattr(message, f"{prefix}producer_epoch", said(heard, begun, "producer_epoch", -1))

    def with_records(message: Any, heard: Answers) -> None:
        producer = said(heard, begun, "producer_id", 1), said(heard, begun, "producer_epoch", 0)
        batch = record_batch(2, *producer, transactional=True, sequence=0)
        message.topic_data[0].partition_data[0].records = batch

    added = types.AddPartitionsToTxnRequest
    topics = [added.AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in (topic, "x-sink")]
    adding = added(v3_and_below_transactional_id=name, v3_and_below_topics=topics)
    scene.asks(ApiKey.ADD_PARTITIONS_TO_TXN, scene.random.choice((0, 2, 3)), adding, as_producer)
    version = scene.version(ApiKey.PRODUCE)
    produce = types.ProduceRequest
    data = produce.TopicProduceData(
        name=topic if version < 13 else "",
        topic_id=topic_id(topic) if version >= 13 else bytes(16),
        partition_data=[produce.PartitionProduceData(index=0)],
    )
    sent = produce(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[data])
    scene.asks(ApiKey.PRODUCE, version, sent, with_records)
    offsets = types.AddOffsetsToTxnRequest(transactional_id=name, group_id=group)
    scene.asks(ApiKey.ADD_OFFSETS_TO_TXN, scene.version(ApiKey.ADD_OFFSETS_TO_TXN), offsets, as_producer)
    commit = types.TxnOffsetCommitRequest
    committed = [
        commit.TxnOffsetCommitRequestTopic(
            name=each, partitions=[commit.TxnOffsetCommitRequestPartition(committed_offset=1)]
        )
        for each in READ_TOPICS
    ]
    committing = commit(transactional_id=name, group_id=group, topics=committed)
    scene.asks(ApiKey.TXN_OFFSET_COMMIT, scene.version(ApiKey.TXN_OFFSET_COMMIT), committing, as_producer)
    _seen_from_outside(scene, name)
    ending = types.EndTxnRequest(transactional_id=name, committed=scene.random.random() < 0.7)
    scene.asks(ApiKey.END_TXN, scene.version(ApiKey.END_TXN), ending, as_producer)
    return (Kind.TRANSACTIONAL_ID, Kind.TOPIC, Kind.GROUP), (Op.WRITE, Op.READ, Op.ALL)


def _seen_from_outside(scene: Scene, name: str) -> None:
    described = types.DescribeTransactionsRequest(transactional_ids=[name])
    scene.asks(ApiKey.DESCRIBE_TRANSACTIONS, 0, described)
    scene.asks(
        ApiKey.LIST_TRANSACTIONS, scene.version(ApiKey.LIST_TRANSACTIONS), types.ListTransactionsRequest()
    )


def fetch_session(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """Several requests of one fetch session, and a change of the ACLs between them (KIP-227)."""
    version = scene.version(ApiKey.FETCH, least=7)
    topics = scene.random.sample(sorted(READ_TOPICS), scene.random.choice((1, 2, 3)))

    def full() -> Any:
        request = types.FetchRequest
        asked = [
            request.FetchTopic(
                topic=name if version < 13 else "",
                topic_id=topic_id(name) if version >= 13 else bytes(16),
                partitions=[request.FetchPartition(partition_max_bytes=1 << 20)],
            )
            for name in topics
        ]
        return request(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0, topics=asked)

    opened = scene.asks(ApiKey.FETCH, version, full())
    for epoch in (1, 2):
        incremental = types.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=epoch)

        def in_session(message: Any, heard: Answers, epoch: int = epoch) -> None:
            message.session_id = said(heard, opened, "session_id", 0)
            if message.session_id == 0:
                # Without a session a client asks for everything each time.
                message.topics, message.session_epoch = full().topics, 0

        if epoch == 2:
            scene.changes_acls(random_rule(scene.random, scene.names, (Kind.TOPIC,), (Op.READ,)))
        scene.asks(ApiKey.FETCH, version, incremental, in_session, instead=_anew(full))
    return (Kind.TOPIC,), (Op.READ,)


def _anew(full: Callable[[], Any]) -> Callable[[Any], Any]:
    """What a client asks whose session is gone."""

    def instead(answer: Any) -> Any:
        return full() if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else None

    return instead


def change_of_acls(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """The same question before a change of the ACLs and after each of three."""
    request = types.ListOffsetsRequest
    partition = request.ListOffsetsPartition(timestamp=-1)
    topics = [
        request.ListOffsetsTopic(name=name, partitions=[partition]) for name in (*READ_TOPICS, "t-ghost")
    ]
    listing = request(replica_id=-1, topics=topics)
    version = scene.version(ApiKey.LIST_OFFSETS)
    scene.asks(ApiKey.LIST_OFFSETS, version, listing)
    for _ in range(3):
        scene.changes_acls(random_rule(scene.random, scene.names, (Kind.TOPIC,), (Op.DESCRIBE, Op.READ)))
        scene.asks(ApiKey.LIST_OFFSETS, version, listing)
    return (Kind.TOPIC,), (Op.DESCRIBE, Op.READ)


def _produce(scene: Scene, version: int, count: int, acks: int) -> Any:
    """To so many topics."""
    request = types.ProduceRequest
    data = [
        request.TopicProduceData(
            name=name if version < 13 else "",
            topic_id=topic_id(name) if version >= 13 else bytes(16),
            partition_data=[request.PartitionProduceData(index=0, records=record_batch(1))],
        )
        for name in scene.random.sample(("t-sink", "x-sink", "t-ghost"), count)
    ]
    return request(acks=acks, timeout_ms=10_000, topic_data=data)


def without_acks(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """A producer that waits for no answer: a denial cuts it off."""
    version = scene.version(ApiKey.PRODUCE)
    message = _produce(scene, version, scene.random.choice((1, 2)), 0)
    scene.asks(ApiKey.PRODUCE, version, message, answered=False)
    # Something that only the broker answers: the proxy may not yet have heard that the broker hung up.
    again = types.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    scene.asks(ApiKey.METADATA, 4, again, same_connection=True)
    return (Kind.TOPIC,), (Op.WRITE,)


def delegation_token(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """Made by one user, looked at, renewed and ended by others (KIP-48, KIP-373)."""
    request = types.CreateDelegationTokenRequest
    renewer = request.CreatableRenewers(principal_type="User", principal_name="bob")
    creation = request(renewers=[renewer], max_lifetime_ms=3_600_000)
    version = scene.version(ApiKey.CREATE_DELEGATION_TOKEN)
    if version >= 3:
        owner = scene.random.choice((None, "carol"))
        creation.owner_principal_type, creation.owner_principal_name = owner and "User", owner
    made = scene.asks(ApiKey.CREATE_DELEGATION_TOKEN, version, creation)

    def with_hmac(message: Any, heard: Answers) -> None:
        message.hmac = bytes(said(heard, made, "hmac", b"")) or b"none"

    everybody = types.DescribeDelegationTokenRequest(owners=None)
    for user in ("alice", "bob", "carol"):
        scene.asks(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            scene.version(ApiKey.DESCRIBE_DELEGATION_TOKEN),
            everybody,
            user=user,
            settles=True,
        )
    for user in scene.random.sample(("alice", "bob", "carol"), 2):
        renewal = types.RenewDelegationTokenRequest(renew_period_ms=600_000)
        scene.asks(ApiKey.RENEW_DELEGATION_TOKEN, 2, renewal, with_hmac, user=user)
    for user in ("carol", "bob", scene.user):
        ending = types.ExpireDelegationTokenRequest(expiry_time_period_ms=-1)
        scene.asks(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ending, with_hmac, user=user)
        scene.asks(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, everybody, user=ADMIN, settles=True)
    return (Kind.USER, Kind.DELEGATION_TOKEN), (Op.CREATE_TOKENS, Op.DESCRIBE_TOKENS, Op.DESCRIBE)


_MIXED = (
    *(ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS),
    *(ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_CONFIGS),
    *(ApiKey.DESCRIBE_ACLS, ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS),
)
"""What changes nothing that another one of them looks at."""


def pipelined(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """Requests of many APIs, allowed and denied, with produces with and without acks among them."""
    filler = Filler(scene.random, scene.names)
    for _ in range(scene.random.choice((3, 10, 30))):
        key = scene.random.choice(_MIXED)
        version = scene.version(key)
        message = filler.request(key, version)
        if key == ApiKey.API_VERSIONS:
            message.client_software_name = message.client_software_version = "pipelined"
        acks = getattr(message, "acks", None)
        if acks == 1 and scene.random.random() < 0.3:
            message.acks = acks = 0
        scene.asks(key, version, message, answered=acks != 0)
    scene.asks(ApiKey.METADATA, 4, types.MetadataRequest(topics=[], allow_auto_topic_creation=False))
    return (Kind.TOPIC, Kind.GROUP), (Op.WRITE, Op.READ, Op.DESCRIBE)


def tagged_fields(scene: Scene) -> tuple[tuple[Kind, ...], tuple[Op, ...]]:
    """A produce or a fetch a few times, then with other tag bytes than zero, and once more as it was."""
    key = scene.random.choice((ApiKey.PRODUCE, ApiKey.FETCH))
    version = scene.version(key, least=9 if key == ApiKey.PRODUCE else 12)
    message = _produce(scene, version, 1, 1) if key == ApiKey.PRODUCE else _fetch(scene, version)
    user = scene.random.choice((ADMIN, scene.user))
    for alter in (None, None, _tagged(scene.random), None):
        scene.asks(key, version, message, user=user, alter=alter, same_connection=True)
    return (Kind.TOPIC,), (Op.WRITE, Op.READ, Op.DESCRIBE)


def _fetch(scene: Scene, version: int) -> Any:
    """One topic, without a session."""
    request, name = types.FetchRequest, scene.random.choice(sorted(READ_TOPICS))
    topic = request.FetchTopic(
        topic=name if version < 13 else "",
        topic_id=topic_id(name) if version >= 13 else bytes(16),
        partitions=[request.FetchPartition(partition=0, partition_max_bytes=1_000)],
    )
    return request(
        replica_id=-1, max_wait_ms=10, min_bytes=0, max_bytes=1_000, session_epoch=-1, topics=[topic]
    )


def _tagged(random: Random) -> Alter:
    """Change the header's tag byte or one of the last three, or put an unknown field there."""
    place, number = random.choice((0, -1, -2, -3)), random.randrange(1, 256)
    field = bytes((1, random.randrange(20, 120), 3)) + b"abc"
    new = random.choice((field, field[:-1], bytes((number,))))

    def alter(frame: bytes) -> bytes:
        # Length, API, version, number and the client id are before the header's tags.
        at = 14 + int.from_bytes(frame[12:14], "big") if place == 0 else len(frame) + place
        changed = frame[4:at] + new + frame[at + 1 :]
        return len(changed).to_bytes(4, "big") + changed

    return alter


SCENARIOS: dict[str, Callable[[Scene], tuple[tuple[Kind, ...], tuple[Op, ...]]]] = {
    "a classic group": classic_group,
    "a consumer group": consumer_group,
    "groups of all kinds": groups_of_all_kinds,
    "a transaction": transaction,
    "a fetch session": fetch_session,
    "a change of ACLs": change_of_acls,
    "produce without acks": without_acks,
    "a delegation token": delegation_token,
    PIPELINED: pipelined,
    "tagged fields": tagged_fields,
}


def scenario(seed: int, number: int, name: str, served: Served) -> Case:
    """One case of it."""
    scene = Scene(seed, number, served)
    kinds, operations = SCENARIOS[name](scene)
    rules = random_rules(scene.random, scene.names, kinds, operations)
    return Case(seed, number, name, rules, scene.steps, groups=True, pipelined=name == PIPELINED)
