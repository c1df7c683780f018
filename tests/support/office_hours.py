"""An authorizer as an operator might write one: Kafka's rules, and closed outside of office hours (A1).

    class.name: tests.support.office_hours.OfficeHours
    settings: {office.hours: "8-18", office.forwarded.by: "User:proxy-1;User:proxy-2"}

Hours are UTC, the second one is not included. `office.forwarded.by`, for a controller, says which proxies may
forward what changes topics; not set, each may.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, Authorizer, Decision, RequestContext
from proxy.security.standard import StandardAuthorizer

CLOSED = Decision(False, "office.closed")
NOT_BY_THIS_PROXY = Decision(False, "office.not.by.this.proxy")


class OfficeHours(Authorizer):
    """See the module."""

    def __init__(self) -> None:
        self._kafkas = StandardAuthorizer()
        self._hours = range(24)
        self._proxies: frozenset[str] = frozenset()

    def configure(self, settings: Mapping[str, str]) -> None:
        hours = re.fullmatch(r"(\d\d?)-(\d\d?)", settings.get("office.hours", ""))
        if hours is None:
            raise ValueError("office.hours: expected two hours, as 8-18")
        self._hours = range(int(hours[1]), int(hours[2]))
        self._proxies = frozenset(filter(None, settings.get("office.forwarded.by", "").split(";")))
        self._kafkas.configure(settings)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        if self.hour() not in self._hours:
            return [CLOSED] * len(actions)
        if self._is_forwarded_by_another(context):
            return [NOT_BY_THIS_PROXY] * len(actions)
        return self._kafkas.authorize(context, actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        if self.hour() not in self._hours:
            return CLOSED
        return self._kafkas.authorize_by_resource_type(context, operation, resource_type)

    def acl_count(self, image: MetadataImage) -> int:
        return self._kafkas.acl_count(image)

    def decisions_last_ms(self) -> int:
        """A session that began at five to six is closed by one second past six."""
        return 1_000

    def hour(self) -> int:
        """What o'clock it is."""
        return datetime.now(UTC).hour

    def _is_forwarded_by_another(self, context: RequestContext) -> bool:
        proxy = context.forwarding_principal
        return proxy is not None and bool(self._proxies) and str(proxy) not in self._proxies


class Closing(OfficeHours):
    """The same with a clock that the test sets."""

    now_hour = 12

    def hour(self) -> int:
        return self.now_hour
