"""What requests cost that are decoded: `python -m tests.lab.bench.decoded`.

Requests of one client and their responses through a session, without sockets; no two requests in a row are
equal, so that none is recognised as the one before. CPU time, the cases in turns, so that others on the
machine count less; what counts is how the rows compare.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import cycle
from typing import Any

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.bench.quotas import BUILD, Row, in_turns, took_us
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, gate_with

VARIANTS = 16
"""Requests of a case, each with other offsets or records."""
TIMES = 400
RIGHTS = (
    *("READ TOPIC t-*", "WRITE TOPIC t-*", "DESCRIBE TOPIC t-*", "READ GROUP g", "DESCRIBE GROUP g"),
    *("WRITE TRANSACTIONAL_ID x", "CLUSTER_ACTION CLUSTER kafka-cluster"),
)


def topic(number: int) -> str:
    return f"t-{number}"


def produce(topics: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.ProduceRequest, t.ProduceResponse
    data = [
        request.TopicProduceData(
            name=topic(n),
            partition_data=[request.PartitionProduceData(index=0, records=bytes([variant]) * 100)],
        )
        for n in range(topics)
    ]
    parts = [
        response.TopicProduceResponse(
            name=topic(n),
            partition_responses=[response.PartitionProduceResponse(index=0, error_code=0, base_offset=7)],
        )
        for n in range(topics)
    ]
    return ApiKey.PRODUCE, 9, request(acks=-1, timeout_ms=1000, topic_data=data), response(responses=parts)


def fetch(partitions: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.FetchRequest, t.FetchResponse
    asked = request.FetchTopic(
        topic=topic(0),
        partitions=[
            request.FetchPartition(partition=n, fetch_offset=variant + n, partition_max_bytes=1 << 20)
            for n in range(partitions)
        ],
    )
    found = response.FetchableTopicResponse(
        topic=topic(0),
        partitions=[
            response.PartitionData(partition_index=n, high_watermark=9, records=b"")
            for n in range(partitions)
        ],
    )
    message = request(max_wait_ms=500, min_bytes=1, max_bytes=1 << 24, topics=[asked])
    return ApiKey.FETCH, 12, message, response(responses=[found])


def metadata(topics: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.MetadataRequest, t.MetadataResponse
    message = request(
        topics=[request.MetadataRequestTopic(name=topic(n)) for n in range(variant, variant + topics)],
        allow_auto_topic_creation=False,
    )
    found = [
        response.MetadataResponseTopic(
            name=topic(n),
            partitions=[
                response.MetadataResponsePartition(
                    partition_index=p, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]
                )
                for p in range(3)
            ],
        )
        for n in range(variant, variant + topics)
    ]
    brokers = [response.MetadataResponseBroker(node_id=n, host="b", port=9092) for n in (1, 2)]
    return ApiKey.METADATA, 9, message, response(brokers=brokers, controller_id=1, topics=found)


def offset_commit(partitions: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.OffsetCommitRequest, t.OffsetCommitResponse
    asked = request.OffsetCommitRequestTopic(
        name=topic(0),
        partitions=[
            request.OffsetCommitRequestPartition(
                partition_index=n, committed_offset=variant + n, committed_metadata=""
            )
            for n in range(partitions)
        ],
    )
    done = response.OffsetCommitResponseTopic(
        name=topic(0),
        partitions=[response.OffsetCommitResponsePartition(partition_index=n) for n in range(partitions)],
    )
    message = request(group_id="g", member_id="m", topics=[asked])
    return ApiKey.OFFSET_COMMIT, 8, message, response(topics=[done])


def heartbeat(variant: int) -> tuple[int, int, Any, Any]:
    message = t.HeartbeatRequest(group_id="g", generation_id=variant, member_id="m")
    return ApiKey.HEARTBEAT, 4, message, t.HeartbeatResponse()


def offset_fetch(partitions: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.OffsetFetchRequest, t.OffsetFetchResponse
    indexes = list(range(variant, variant + partitions))
    asked = request.OffsetFetchRequestTopics(name=topic(0), partition_indexes=indexes)
    found = response.OffsetFetchResponseTopics(
        name=topic(0),
        partitions=[
            response.OffsetFetchResponsePartitions(partition_index=n, committed_offset=9, metadata="")
            for n in indexes
        ],
    )
    message = request(groups=[request.OffsetFetchRequestGroup(group_id="g", topics=[asked])])
    reply = response(groups=[response.OffsetFetchResponseGroup(group_id="g", topics=[found])])
    return ApiKey.OFFSET_FETCH, 8, message, reply


def txn_offset_commit(partitions: int, variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.TxnOffsetCommitRequest, t.TxnOffsetCommitResponse
    asked = request.TxnOffsetCommitRequestTopic(
        name=topic(0),
        partitions=[
            request.TxnOffsetCommitRequestPartition(
                partition_index=n, committed_offset=variant + n, committed_metadata=""
            )
            for n in range(partitions)
        ],
    )
    done = response.TxnOffsetCommitResponseTopic(
        name=topic(0),
        partitions=[response.TxnOffsetCommitResponsePartition(partition_index=n) for n in range(partitions)],
    )
    message = request(transactional_id="x", group_id="g", member_id="m", topics=[asked])
    return ApiKey.TXN_OFFSET_COMMIT, 3, message, response(topics=[done])


def join_group(variant: int) -> tuple[int, int, Any, Any]:
    request, response = t.JoinGroupRequest, t.JoinGroupResponse
    subscription = request.JoinGroupRequestProtocol(name="range", metadata=bytes(40))
    message = request(
        group_id="g",
        session_timeout_ms=45_000 + variant,
        rebalance_timeout_ms=300_000,
        member_id="m",
        protocol_type="consumer",
        protocols=[subscription],
    )
    member = response.JoinGroupResponseMember(member_id="m", metadata=bytes(40))
    reply = response(
        protocol_type="consumer", protocol_name="range", leader="m", member_id="m", members=[member]
    )
    return ApiKey.JOIN_GROUP, 9, message, reply


def sync_group(variant: int) -> tuple[int, int, Any, Any]:
    request = t.SyncGroupRequest
    assigned = request.SyncGroupRequestAssignment(member_id="m", assignment=bytes(40))
    message = request(
        group_id="g",
        generation_id=variant,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assigned],
    )
    reply = t.SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=bytes(40))
    return ApiKey.SYNC_GROUP, 5, message, reply


def consumer_group_heartbeat(variant: int) -> tuple[int, int, Any, Any]:
    message = t.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=variant)
    reply = t.ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=variant, heartbeat_interval_ms=5_000)
    return ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, message, reply


CASES: dict[str, Callable[[int], tuple[int, int, Any, Any]]] = {
    "Produce, 1 topic": lambda variant: produce(1, variant),
    "Produce, 2 topics": lambda variant: produce(2, variant),
    "Produce, 8 topics": lambda variant: produce(8, variant),
    "Fetch, 1 partition": lambda variant: fetch(1, variant),
    "Fetch, 50 partitions": lambda variant: fetch(50, variant),
    "Metadata, 1 topic": lambda variant: metadata(1, variant),
    "Metadata, 100 topics": lambda variant: metadata(100, variant),
    "OffsetCommit, 1 partition": lambda variant: offset_commit(1, variant),
    "OffsetCommit, 20 partitions": lambda variant: offset_commit(20, variant),
    "OffsetFetch, 20 partitions": lambda variant: offset_fetch(20, variant),
    "TxnOffsetCommit, 20 partitions": lambda variant: txn_offset_commit(20, variant),
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
}


def round_trip(make: Callable[[int], tuple[int, int, Any, Any]]) -> Callable[[], None]:
    """Return a function that sends the next request of a case, and its response, through a session."""
    talk = Conversation(gate=gate_with(image_with(*RIGHTS)))
    pairs = [_frames(talk, *make(variant)) for variant in range(VARIANTS)]
    session, clock = talk.session, [talk.now_ms]
    frames: Iterator[tuple[bytes, bytes]] = cycle(pairs)

    def once() -> None:
        asked, answered = (memoryview(bytearray(each)) for each in next(frames))
        clock[0] += 1
        if not session.forward_request(asked, clock[0]):
            session.receive(asked, clock[0])
        if not session.forward_response(answered, clock[0]):
            session.broker_responded(answered, clock[0])

    once()
    assert not session.pipeline, "the response was not passed on"
    return once


def round_trips(make: Callable[[int], tuple[int, int, Any, Any]]) -> Callable[[], float]:
    """Return a function that measures the CPU µs of one request and its response."""
    once = round_trip(make)
    return lambda: took_us(once, TIMES)


def _frames(talk: Conversation, api_key: int, version: int, message: Any, reply: Any) -> tuple[bytes, bytes]:
    talk.correlation_id = 0
    request = talk.request(api_key, version, message)
    return request, talk.response(api_key, version, reply)


def main() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    rows: list[Row] = in_turns({name: round_trips(make) for name, make in CASES.items()}, "round trip")
    for row in rows:
        sys.stdout.write(f"{row.case:<28} {row.median:>8.2f} {row.unit} ({row.min:.2f} to {row.max:.2f})\n")
    BUILD.mkdir(exist_ok=True)
    (BUILD / "decoded.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
