"""The controller's decisions asked for by tests: an Envelope is made, opened and decided at an image."""

from collections.abc import Mapping, Sequence
from typing import Any

from forwarding.controller.api import ControllerOutcome, TokenSettings
from forwarding.controller.controller import CONTROLLER_APIS, NO_TOKENS, Controller, Verdict
from forwarding.envelope import ForwardedRequest, Sender, wrap
from proxy.admin.topics import TopicKey
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import load_authorizer
from proxy.security.principal import Principal, deserialize, serialize
from proxy.security.protected import OwnResources, ProtectedResources
from proxy.wire import codecs
from proxy.wire.header import decode_response_header
from proxy.wire.message import Message
from tests.support.images import acl_record, image_of

ADMIN = Principal("User", "admin")
ALICE = Principal("User", "alice")
PROXY = Sender(Principal("User", "proxy-1"), "10.0.0.9", "CONTROLLER", "penstock")
STANDARD = "proxy.security.standard.StandardAuthorizer"
METADATA_TOPIC, AUDIT_TOPIC = "__penstock_metadata", "__penstock_audit"
TRANSACTIONAL_ID = "penstock-controller"
OWN = OwnResources.of(METADATA_TOPIC, AUDIT_TOPIC, TRANSACTIONAL_ID)
NOW_MS = 1_000_000


def controller(
    super_users: str = "User:admin;User:proxy-1",
    tokens: TokenSettings = NO_TOKENS,
    creators_own: bool = False,
    authorizer: str = STANDARD,
) -> Controller:
    return Controller(
        ProtectedResources(load_authorizer(authorizer, {"super.users": super_users}), OWN),
        deserialize,
        lambda: b"\x01" * 16,
        tokens,
        creators_own,
    )


def envelope_of(
    api_key: int,
    request: Any,
    principal: Principal = ALICE,
    version: int | None = None,
    forward_id: str = "p/b/0",
) -> Any:
    version = codecs.request_versions(api_key)[-1] if version is None else version
    body = codecs.request(api_key, version).encode(request)
    return wrap(
        api_key,
        version,
        1,
        "cli",
        body,
        principal=serialize(principal),
        client_address=bytes([10, 0, 0, 1]),
        forward_id=forward_id,
    )


def enveloped_response(api_key: int, answer: Any, version: int | None = None) -> Any:
    """The response within an EnvelopeResponse."""
    version = codecs.request_versions(api_key)[-1] if version is None else version
    data = bytes(answer.response_data)
    _, offset = decode_response_header(api_key, version, data)
    return codecs.response(api_key, version).decode_exactly(data[offset:])


def decided(
    api_key: int,
    request: Any,
    principal: Principal = ALICE,
    image: MetadataImage = MetadataImage.EMPTY,
    topic_names: Mapping[TopicKey, str] | None = None,
    version: int | None = None,
    tokens: TokenSettings = NO_TOKENS,
    creators_own: bool = False,
    topic_ids: Mapping[str, bytes] | None = None,
    authorizer: str = STANDARD,
) -> Verdict:
    served = controller(tokens=tokens, creators_own=creators_own, authorizer=authorizer)
    forwarded, _ = served.open(envelope_of(api_key, request, principal, version), PROXY, image)
    assert isinstance(forwarded, ForwardedRequest)
    verdict = served.decide(forwarded, PROXY, image, topic_names or {}, NOW_MS, topic_ids or {})
    if isinstance(verdict.decision, ControllerOutcome):
        require_in_row(api_key, verdict.decision.records)
    return verdict


def require_in_row(api_key: int, records: Sequence[Message]) -> None:
    """The row of the API names each record that it comes to."""
    row = CONTROLLER_APIS.get(api_key)
    assert {type(record).__name__ for record in records} <= set(() if row is None else row.writes)


def allowed(*rights: tuple[Operation, str]) -> MetadataImage:
    """Alice's rights on topics; kafka-cluster means the cluster."""
    return image_of(
        *(
            acl_record(
                number,
                name,
                ResourceType.CLUSTER if name == "kafka-cluster" else ResourceType.TOPIC,
                operation=operation,
            )
            for number, (operation, name) in enumerate(rights)
        )
    )
