"""The controller decides by the groups that an Envelope carries, as the proxy did (SPEC A8)."""

import pytest

from forwarding.controller.api import ControllerOutcome
from proxy.metadata.acl import Operation, PermissionType, ResourceType
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.support.controllers import acl_creation
from tests.support.decisions import decided
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("A8", "E7")

CLUSTER = ResourceType.CLUSTER
ALLOW = acl_record(1, "kafka-cluster", CLUSTER, principal="Group:admins", operation=Operation.ALTER)
DENY = acl_record(
    2,
    "kafka-cluster",
    CLUSTER,
    principal="Group:interns",
    operation=Operation.ALL,
    permission_type=PermissionType.DENY,
)
CREATION = acl_creation("orders", "Group:Payments & Billing:eu")


@pytest.mark.parametrize(
    ("groups", "principals"),
    [
        ((), []),
        (("admins",), ["Group:Payments & Billing:eu"]),
        (("admins", "other"), ["Group:Payments & Billing:eu"]),
        (("admins", "interns"), []),
        (("other",), []),
    ],
)
def test_a_member_of_an_allowed_group_creates_an_acl_for_a_group(
    groups: tuple[str, ...], principals: list[str]
) -> None:
    verdict = decided(
        ApiKey.CREATE_ACLS,
        types.CreateAclsRequest(creations=[CREATION]),
        principal=Principal("User", "alice", groups=groups),
        image=image_of(ALLOW, DENY),
    )

    assert isinstance(verdict.decision, ControllerOutcome)
    assert [getattr(record, "principal", None) for record in verdict.decision.records] == principals
