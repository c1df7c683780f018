"""Rejects changes of ACLs that break an assertion, where Kafka's own controllers carry them out.

Penstock's controller guards its log by itself, with the same `PolicyGuard`. A proxy imports this only if its
file names assertions: it needs the controller's code.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from forwarding.controller.acls import create_acls, delete_acls
from forwarding.net.policy_guard import PolicyGuard
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.image import MetadataImage
from proxy.net.runtime.clock import now_ms
from proxy.security.principal_serde import PrincipalSerde
from proxy.session.apis.table import rejection
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

NOT_LOADED = "The metadata log is not loaded: the change cannot be compared with the assertions."


class GuardedAcls(PolicyGuard):
    """The guard of a proxy."""

    async def refused(
        self,
        request: ToController,
        image: MetadataImage | None,
        forward_id: str,
        serde: PrincipalSerde,
        record: Callable[[AuditEvent], None],
    ) -> ControllerResponse | None:
        """Return the response to a change that must not be forwarded, None if it may be.

        `image`: None before it is loaded. Super users are served then.
        """
        if request.api_key not in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
            return None
        message, _ = codecs.request(request.api_key, request.api_version).decode(request.body)
        fault: str | None = NOT_LOADED
        if image is not None:
            fault = await self.refusal(image, await asyncio.to_thread(_records, message, image))
        if fault is None:
            return None
        record(
            events.request_refused(
                principal=str(serde.deserialize(request.principal)),
                client_id=request.client_id,
                method=ApiKey.name_of(request.api_key),
                api_version=request.api_version,
                correlation_id=request.correlation_id,
                forward_id=forward_id,
                error_code=int(ErrorCode.POLICY_VIOLATION),
                metadata_offset=None if image is None else image.offset,
                message=fault,
            )
        )
        response = rejection(request.api_key, request.api_version, message, ErrorCode.POLICY_VIOLATION, fault)
        body = codecs.response(request.api_key, request.api_version).encode(response)
        return ControllerResponse(ErrorCode.NONE, body, forward_id)


def _records(request: Any, image: MetadataImage) -> Sequence[Message]:
    """Return what Kafka's controller will write: it decides as Penstock's does."""
    if isinstance(request, types.CreateAclsRequest):
        return create_acls(request, image, partial(secrets.token_bytes, 16), now_ms()).records
    return delete_acls(request, image).records
