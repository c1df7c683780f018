"""`penstock policy ... live`: the ACLs that a cluster describes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("D18")


def described(request: Request) -> Any:
    assert request.message.resource_type_filter == ResourceType.ANY
    return types.DescribeAclsResponse(
        resources=[
            types.DescribeAclsResponse.DescribeAclsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="orders",
                pattern_type=PatternType.LITERAL,
                acls=[
                    types.DescribeAclsResponse.AclDescription(
                        principal=principal,
                        host="*",
                        operation=Operation.READ,
                        permission_type=PermissionType.ALLOW,
                    )
                    for principal in ("User:alice", "User:root")
                ],
            )
        ]
    )


def at(broker: FakeBroker) -> tuple[str, ...]:
    return "--bootstrap-server", broker.address, "--super-users", "User:root"


async def test_a_running_cluster_is_compared_with_a_proposal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = tmp_path / "retire.txt"
    proposal.write_text(
        "kafka-acls --remove --allow-principal User:alice --allow-principal User:root --operation Read"
        " --topic orders",
        encoding="utf-8",
    )
    async with FakeBroker({ApiKey.DESCRIBE_ACLS: described}) as broker:
        words = ["policy", "diff", "live", str(proposal), *at(broker)]
        exit_code = await asyncio.to_thread(main, words)

    assert (exit_code, capsys.readouterr().out) == (
        1,
        "NEWLY DENIED: User:alice from *: READ, DESCRIBE TOPIC orders\n"
        "    User:alice 192.0.2.1 READ TOPIC orders: allowed (acl) -> denied (default.deny)\n"
        "1 region: 0 newly allowed, 1 newly denied\n",
    )


async def test_a_cluster_that_does_not_describe_its_acls_has_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def denied(_: Request) -> Any:
        return types.DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async with FakeBroker({ApiKey.DESCRIBE_ACLS: denied}) as broker:
        words = ["policy", "useless", "live", *at(broker)]
        exit_code = await asyncio.to_thread(main, words)

    assert exit_code == 2
    assert "DescribeAcls: CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().err
