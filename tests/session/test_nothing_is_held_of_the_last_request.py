"""What a request and its response have taken is free once both have left: connections are idle for days."""

from random import Random
from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.catalog import response as response_schema
from proxy.wire.header import decode_request_header
from tests.session.apis.asking import image_with
from tests.session.apis.test_every_version import EVERYTHING, legible
from tests.session.conversation import Conversation, frames_of, gate_with
from tests.support.wire_messages import MessageFiller

KEYS = sorted({*TABLE, ApiKey.PRODUCE, ApiKey.FETCH})


class Sides:
    """Gives a session bytes of the client and of the broker, and remembers the buffers that they were in."""

    def __init__(self, talk: Conversation, filler: MessageFiller) -> None:
        self.talk, self.filler = talk, filler
        self.buffers: list[bytearray] = []

    def _view(self, data: bytes) -> memoryview:
        self.buffers.append(bytearray(data))
        return memoryview(self.buffers[-1])

    def asks(self, api_key: int, version: int) -> None:
        request = legible(self.filler.message(request_schema(api_key).name, version))
        data = self.talk.request(api_key, version, request)
        self.talk.carry_out(self.talk.session.receive(self._view(data), self.talk.now_ms))

    def answer_all(self) -> None:
        talk = self.talk
        while talk.closed is None:
            if talk.lookups:
                talk.broker_names()
            elif sent := talk.forwarded_bytes():
                for frame in frames_of(sent):
                    header = decode_request_header(frame, 4)
                    response = self._response(header.api_key, header.api_version)
                    data = talk.response(header.api_key, header.api_version, response, header.correlation_id)
                    talk.carry_out(talk.session.broker_responded(self._view(data), talk.now_ms))
            elif talk.controller:
                asked = talk.controller[-1]
                talk.controller_answers(self._response(asked.api_key, asked.api_version))
                talk.controller.remove(asked)
            else:
                return

    def _response(self, api_key: int, version: int) -> Any:
        return self.filler.message(response_schema(api_key).name, version)


@pytest.mark.spec("O6")
@pytest.mark.parametrize("rights", [EVERYTHING, []], ids=["everything", "nothing"])
@pytest.mark.parametrize("key", KEYS, ids=ApiKey.name_of)
def test_an_idle_session_has_no_view_of_a_request_or_of_a_response(key: int, rights: list[str]) -> None:
    version = codecs.request_versions(key)[-1]
    for seed in range(2):
        talk = Conversation(gate=gate_with(image_with(*rights)))
        sides = Sides(talk, MessageFiller(Random(f"{key}/{seed}")))
        sides.asks(key, version)
        sides.answer_all()
        talk.effects.clear()

        for buffer in sides.buffers:
            buffer.clear()  # BufferError if there is a view.
