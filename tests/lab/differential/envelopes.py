"""The same cases one step further in: what changes the cluster goes in Envelopes to the two controllers.

    with both_sides(libs, directory) as sides:
        Run(*map(at_the_controller, sides), staged=True)

A KRaft controller with StandardAuthorizer beside ours. Nothing is filtered by a broker or a proxy before, so
what either decides by itself is compared. Everything else of a case is asked of broker and proxy as ever.
"""

import secrets
from dataclasses import dataclass
from typing import Any

from forwarding import envelope
from proxy.admin.configs import BROKER, BROKER_LOGGER
from proxy.security.principal import Principal, serialize
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_response_header
from tests.lab.side_by_side.dialogue import CLIENT_ID, Alter, Dialogue, Heard, Outcome, Refused
from tests.lab.side_by_side.sides import Side

HOST = bytes([127, 0, 0, 1])
CONTROLLER_TIMEOUT_S = 30.0
_OPERATIONS = 4
_OF_ONE_BROKER = (BROKER, BROKER_LOGGER)


class EnvelopeDialogue(Dialogue):
    """One user of a side: in Envelopes where requests are forwarded, at the side itself where not."""

    def __init__(self, side: Side, user: str) -> None:
        """RuntimeError when the controller does not take the login."""
        assert side.controller is not None
        super().__init__(side.controller.address, CONTROLLER_TIMEOUT_S)
        if side.controller.user is not None:
            self.log_in(side.controller.user, side.controller.password)
        self._side = side
        self._user = user
        self._direct: Dialogue | None = None
        self._number = 0
        # A controller answers a forward id that it knows as it did before.
        self._prefix = f"differential/{secrets.token_hex(8)}"

    def ask(
        self, api_key: int, version: int, message: Any, *, answered: bool = True, alter: Alter | None = None
    ) -> Outcome | None:
        if api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.ENVELOPE):
            return super().ask(api_key, version, message, answered=answered, alter=alter)
        if api_key in FORWARDED:
            _leave_to_the_broker(api_key, message)
            return self.forward(api_key, version, codecs.request(api_key, version).encode(message))
        if self._direct is None or not self._direct.usable:
            self._direct = self._side.dialogue(self._user)
        return self._direct.ask(api_key, version, message, answered=answered, alter=alter)

    def forward(self, api_key: int, version: int, body: bytes) -> Outcome | None:
        """What the controller makes of the request in an Envelope."""
        self._number += 1
        wrapped = envelope.wrap(
            api_key,
            version,
            self._number,
            CLIENT_ID,
            body,
            principal=serialize(Principal("User", self._user)),
            client_address=HOST,
            forward_id=f"{self._prefix}/{self._number}",
        )
        outcome = super().ask(ApiKey.ENVELOPE, 0, wrapped)
        return self._inner(outcome.message, api_key, version) if isinstance(outcome, Heard) else outcome

    def close(self) -> None:
        super().close()
        if self._direct is not None:
            self._direct.close()

    def _inner(self, answer: Any, api_key: int, version: int) -> Outcome:
        if answer.error_code:
            return Refused(answer.error_code)
        data = bytes(answer.response_data)
        correlation_id, offset = decode_response_header(api_key, version, data)
        assert correlation_id == self._number, "an answer to another request"
        return Heard(codecs.response(api_key, version).decode_exactly(data[offset:]))


@dataclass(slots=True)
class ForwardingSide(Side):
    """A side, its controller asked directly."""

    def dialogue(self, user: str) -> Dialogue:
        return EnvelopeDialogue(
            Side(self.name, self.address, self.passwords, controller=self.controller), user
        )

    def versions(self) -> dict[int, tuple[int, int]]:
        """What its controller takes in an Envelope."""
        dialogue = EnvelopeDialogue(self, "nobody")
        asked = types.ApiVersionsRequest(client_software_name="differential", client_software_version="1")
        outcome = Dialogue.ask(dialogue, ApiKey.API_VERSIONS, 3, asked)
        dialogue.close()
        assert isinstance(outcome, Heard), outcome
        told = {api.api_key: (api.min_version, api.max_version) for api in outcome.message.api_keys}
        return {api_key: versions for api_key, versions in told.items() if api_key in FORWARDED}


def at_the_controller(side: Side) -> ForwardingSide:
    """The same side, sharing what is known of its topics."""
    return ForwardingSide(side.name, side.address, side.passwords, side.topic_ids, side.controller)


def _leave_to_the_broker(api_key: int, message: Any) -> None:
    """Without what a broker looks at before it forwards, and answers itself when it is at fault.

    Our controller has the configs altered by a broker, so it looks at the same.
    """
    if api_key not in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return
    message.resources = [part for part in message.resources if part.resource_type not in _OF_ONE_BROKER]
    for resource in message.resources:
        resource.configs = list({config.name: config for config in resource.configs}.values())
        for config in resource.configs:
            config.value = config.value or "1"
            if api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
                config.config_operation %= _OPERATIONS
