"""Filters of DescribeAcls and DeleteAcls that match every ACL, save for what `fields` say otherwise."""

from typing import Any

from proxy.wire import types

ANY = 1
_EVERY: dict[str, Any] = {
    "resource_type_filter": ANY,
    "pattern_type_filter": ANY,
    "operation": ANY,
    "permission_type": ANY,
}
_NO_NAME = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))


def describe_acls(**fields: Any) -> Any:
    return types.DescribeAclsRequest(**(_EVERY | _NO_NAME | fields))


def acl_filter(**fields: Any) -> Any:
    """One filter of a DeleteAcls request."""
    return types.DeleteAclsRequest.DeleteAclsFilter(**(_EVERY | _NO_NAME | fields))
