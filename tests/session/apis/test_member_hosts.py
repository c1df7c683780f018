"""The host of a group member: the address of its client, which the broker does not see."""

from collections.abc import Iterable
from typing import Any

import pytest

from proxy.session.member_hosts import MAX_NAME_LENGTH, REFRESH_MS, MemberHosts
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import Asking

pytestmark = pytest.mark.spec("A7")

READ, DESCRIBE = "READ GROUP team", "DESCRIBE GROUP team"
CLIENT, PROXY = "/10.0.0.1", "/10.0.0.99"
ADDRESS = bytes([10, 0, 0, 1])
NONE, ILLEGAL_GENERATION = ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION
_MEMBER: dict[str, Any] = {"group_id": "team", "member_id": "m"}

ACCEPTED: dict[ApiKey, tuple[Any, Any]] = {
    ApiKey.SYNC_GROUP: (
        lambda: t.SyncGroupRequest(**_MEMBER, protocol_type="consumer", protocol_name="range"),
        lambda code: t.SyncGroupResponse(error_code=code, assignment=b"partitions"),
    ),
    ApiKey.HEARTBEAT: (
        lambda: t.HeartbeatRequest(**_MEMBER),
        lambda code: t.HeartbeatResponse(error_code=code),
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        lambda: t.ConsumerGroupHeartbeatRequest(**_MEMBER),
        lambda code: t.ConsumerGroupHeartbeatResponse(error_code=code, member_id="m"),
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (
        lambda: t.ShareGroupHeartbeatRequest(**_MEMBER),
        lambda code: t.ShareGroupHeartbeatResponse(error_code=code, member_id="m"),
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        lambda: t.StreamsGroupHeartbeatRequest(**_MEMBER),
        lambda code: t.StreamsGroupHeartbeatResponse(error_code=code, member_id="m"),
    ),
}
"""How a client shows that it is a member: the request, and the broker's response by its error."""

DESCRIBED: dict[ApiKey, tuple[Any, Any]] = {
    ApiKey.DESCRIBE_GROUPS: (lambda: t.DescribeGroupsRequest(groups=["team"]), t.DescribeGroupsResponse),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        lambda: t.ConsumerGroupDescribeRequest(group_ids=["team"]),
        t.ConsumerGroupDescribeResponse,
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: (
        lambda: t.ShareGroupDescribeRequest(group_ids=["team"]),
        t.ShareGroupDescribeResponse,
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: (
        lambda: t.StreamsGroupDescribeRequest(group_ids=["team"]),
        t.StreamsGroupDescribeResponse,
    ),
}


def every_version(keys: Iterable[ApiKey]) -> list[Any]:
    return [
        pytest.param(key, version, id=f"{key.name}-v{version}")
        for key in keys
        for version in codecs.request_versions(key)
    ]


def latest(key: ApiKey) -> int:
    return max(codecs.request_versions(key))


def acts_as_member(key: ApiKey, version: int, code: ErrorCode = NONE) -> Asking:
    """A client of the group after one request, to which the broker has responded with this code."""
    request, response = ACCEPTED[key]
    member = Asking(key, version, READ, DESCRIBE)
    member.for_(request()).told(response(code))
    return member


def described_hosts(group_seen_by: Asking, key: ApiKey, version: int, *members: str) -> list[str]:
    """The hosts of these members, for which the broker reports the proxy's address."""
    request, response = DESCRIBED[key]
    admin = Asking(key, version, DESCRIBE)
    admin.gate = group_seen_by.gate
    of_group = [_member(response, name) for name in members]
    answer = response(groups=[response.DescribedGroup(group_id="team", members=of_group)])
    return [member.client_host for member in admin.for_(request()).told(answer).groups[0].members]


def _member(response: Any, name: str) -> Any:
    if response is t.DescribeGroupsResponse:
        return response.DescribedGroupMember(member_id=name, client_host=PROXY)
    if response is t.StreamsGroupDescribeResponse:
        return response.Member(
            member_id=name,
            client_host=PROXY,
            assignment=response.Assignment(),
            target_assignment=response.Assignment(),
        )
    return response.Member(member_id=name, client_host=PROXY)


@pytest.mark.parametrize(("key", "version"), every_version(ACCEPTED))
def test_a_member_is_described_with_the_host_of_its_client(key: ApiKey, version: int) -> None:
    member = acts_as_member(key, version)

    assert described_hosts(member, ApiKey.DESCRIBE_GROUPS, 5, "m", "other") == [CLIENT, PROXY]


@pytest.mark.parametrize(("key", "version"), every_version(DESCRIBED))
def test_each_api_that_describes_members_returns_the_hosts_of_clients(key: ApiKey, version: int) -> None:
    member = acts_as_member(ApiKey.HEARTBEAT, 4)

    assert described_hosts(member, key, version, "m", "other") == [CLIENT, PROXY]


@pytest.mark.parametrize("key", ACCEPTED, ids=lambda key: key.name)
def test_a_request_that_the_broker_has_rejected_does_not_change_the_host_of_a_member(key: ApiKey) -> None:
    stranger = acts_as_member(key, latest(key), ILLEGAL_GENERATION)

    assert described_hosts(stranger, ApiKey.DESCRIBE_GROUPS, 5, "m") == [PROXY]


@pytest.mark.parametrize("key", [ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT], ids=lambda key: key.name)
def test_responses_to_a_member_whose_host_is_known_pass_undecoded(key: ApiKey) -> None:
    request, _ = ACCEPTED[key]
    member = Asking(key, latest(key), READ)
    assert not member.for_(request()).passes_unread

    member.gate.member_hosts.learn("team", "m", ADDRESS, 0)

    assert member.for_(request()).passes_unread


def test_a_member_that_has_moved_is_described_with_its_new_host() -> None:
    member = Asking(ApiKey.HEARTBEAT, 4, READ)
    member.gate.member_hosts.learn("team", "m", bytes([10, 0, 0, 7]), 0)
    request, response = ACCEPTED[ApiKey.HEARTBEAT]

    member.for_(request()).told(response(NONE))

    assert described_hosts(member, ApiKey.DESCRIBE_GROUPS, 5, "m") == [CLIENT]


def test_the_hosts_of_members_are_bounded_in_number_and_length() -> None:
    hosts = MemberHosts(max_members=2)
    names = ["m0", "m1", "m2", "m" * MAX_NAME_LENGTH, ""]
    for name in names:
        hosts.learn("team", name, ADDRESS, 0)

    assert [name for name in names if hosts.knows("team", name, ADDRESS, 0)] == ["m1", "m2"]


def test_a_host_that_the_workers_could_not_store_is_learnt_from_the_next_request() -> None:
    shared = _Shared()
    hosts = MemberHosts(shared)

    hosts.learn("team", "m", ADDRESS, 0)
    before = hosts.knows("team", "m", ADDRESS, 0)
    shared.busy = False
    hosts.learn("team", "m", ADDRESS, 0)

    assert (before, hosts.knows("team", "m", ADDRESS, 0)) == (False, True)


class _Shared:
    busy = True

    def put(self, _group_id: str, _member_id: str, _address: bytes) -> bool:
        return not self.busy

    def get(self, _group_id: str, _member_id: str) -> bytes | None:
        return None


def test_a_host_is_learnt_again_after_a_while() -> None:
    hosts = MemberHosts()
    hosts.learn("team", "m", ADDRESS, 0)

    known = [hosts.knows("team", "m", ADDRESS, at_ms) for at_ms in (-1, 0, REFRESH_MS - 1, REFRESH_MS)]

    assert known == [False, True, True, False]
