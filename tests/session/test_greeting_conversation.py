"""Before anything else: ApiVersions, SASL with PLAIN and SCRAM, and what no stranger may send."""

from struct import pack
from typing import Any

import pytest

from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.security.sasl.client import ScramClient
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.scram import ScramExchange
from proxy.session.authentication import SaslListener
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_request
from tests.session.conversation import Conversation, plain_token, produce, sasl

API_VERSIONS, HANDSHAKE, AUTHENTICATE = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
SOFTWARE: dict[str, Any] = {"client_software_name": "apache-kafka-java", "client_software_version": "4.2.0"}


def ranges(response: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@pytest.mark.spec("E8")
@pytest.mark.parametrize("version", codecs.request_versions(API_VERSIONS))
@pytest.mark.parametrize("known", [True, False], ids=["known", "stranger"])
def test_every_version_of_api_versions_tells_what_is_served_to_strangers_too(
    version: int, known: bool
) -> None:
    talk = Conversation(sasl_listener=None if known else sasl())

    talk.asks(API_VERSIONS, version, t.ApiVersionsRequest(**SOFTWARE if version >= 3 else {}))

    response = talk.heard(API_VERSIONS, version)
    assert response.error_code == ErrorCode.NONE
    assert ranges(response) == dict(talk.gate.versions)
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("E8")
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "elsewhere"),
    [
        ("cluster", 1, False),
        ("cluster", 2, True),
        ("another", 1, True),
        (None, -1, False),
    ],
)
def test_a_client_that_means_another_cluster_or_broker_is_sent_back_to_its_bootstrap_servers(
    cluster_id: str | None, node_id: int, elsewhere: bool
) -> None:
    request = t.ApiVersionsRequest(**SOFTWARE, cluster_id=cluster_id, node_id=node_id)

    def heard(gate_knows: str | None, nodes: frozenset[int] | None, stranger: bool = False) -> Any:
        talk = Conversation(sasl_listener=sasl() if stranger else None)
        talk.gate.cluster_id, talk.listener.nodes_here = gate_knows, nodes
        talk.asks(API_VERSIONS, 5, request)
        response = talk.heard(API_VERSIONS, 5)
        assert ranges(response) == ({} if response.error_code else dict(talk.gate.versions))
        return response.error_code

    expected = ErrorCode.REBOOTSTRAP_REQUIRED if elsewhere else ErrorCode.NONE
    assert heard("cluster", frozenset([1])) == expected
    assert heard("cluster", frozenset([1]), stranger=True) == ErrorCode.NONE
    assert heard(None, frozenset([1])) == ErrorCode.NONE
    other_cluster = ErrorCode.REBOOTSTRAP_REQUIRED if cluster_id == "another" else ErrorCode.NONE
    assert heard("cluster", None) == other_cluster


@pytest.mark.spec("E8")
@pytest.mark.parametrize("known", [True, False], ids=["known", "stranger"])
@pytest.mark.parametrize(("cluster_id", "node_id"), [("cluster", -1), ("", -1), (None, 2)])
def test_a_client_that_means_a_cluster_or_a_broker_and_not_both_makes_an_invalid_request(
    cluster_id: str | None, node_id: int, known: bool
) -> None:
    talk = Conversation(sasl_listener=None if known else sasl())
    talk.gate.cluster_id = "cluster"

    talk.asks(API_VERSIONS, 5, t.ApiVersionsRequest(**SOFTWARE, cluster_id=cluster_id, node_id=node_id))

    assert talk.heard(API_VERSIONS, 5).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("E8")
def test_a_version_nobody_knows_is_answered_in_version_0_with_the_versions_there_are() -> None:
    talk = Conversation(sasl_listener=sasl())
    last = codecs.request_versions(API_VERSIONS)[-1]

    frame = bytearray(encode_request(API_VERSIONS, last, 7, "app", b"whatever a later version says"))
    frame[6:8] = pack(">h", last + 1)
    talk.sends(bytes(frame))

    ((correlation_id, response),) = talk.heard_all((API_VERSIONS, 0))
    assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert ranges(response) == {API_VERSIONS: (0, last)}
    assert talk.closed is None


@pytest.mark.spec("E8")
@pytest.mark.parametrize("name", ["", "-java", "ja va", "java\n", "jäva"])
def test_a_software_name_that_is_none_is_an_invalid_request(name: str) -> None:
    talk = Conversation(sasl_listener=sasl())

    talk.asks(API_VERSIONS, 3, t.ApiVersionsRequest(**SOFTWARE | {"client_software_name": name}))

    assert talk.heard(API_VERSIONS, 3).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("R9")
@pytest.mark.parametrize("version", codecs.request_versions(AUTHENTICATE))
def test_plain_makes_a_stranger_a_principal(version: int) -> None:
    talk = Conversation(sasl_listener=sasl())

    response = talk.logs_in("alice", version)

    assert response.error_code == ErrorCode.NONE
    (event,) = talk.told("authentication")
    assert (event.principal, event.mechanism, event.listener) == ("User:alice", "PLAIN", "SASL")
    assert (event.host, event.connection_id, event.client_id) == ("10.0.0.1", "c0ffee", "app")


@pytest.mark.spec("R9")
@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_scram_makes_a_stranger_a_principal_in_two_rounds(mechanism: ScramMechanism) -> None:
    credential = credential_from_password(mechanism, "geheim", b"salt of alice")

    def exchange(_name: str) -> Exchange:
        return ScramExchange(mechanism, {"alice": credential}.get, "servernonce", b"secret")

    name = mechanism.mechanism_name
    talk = Conversation(sasl_listener=SaslListener("SASL", (name,), lambda _: 0, exchange))
    client = ScramClient(mechanism, "alice", "geheim", "clientnonce")

    assert talk.shakes_hands(name).mechanisms == [name]
    challenge = talk.authenticates(client.first())
    final = client.respond(bytes(challenge.auth_bytes))
    assert final is not None
    last = talk.authenticates(final)

    assert client.respond(bytes(last.auth_bytes)) is None
    assert client.done
    assert [e.principal for e in talk.told("authentication")] == ["User:alice"]


@pytest.mark.spec("R4")
def test_after_a_handshake_of_version_0_tokens_come_bare_and_are_answered_bare() -> None:
    talk = Conversation(sasl_listener=sasl())
    assert talk.shakes_hands("PLAIN", version=0).error_code == ErrorCode.NONE
    token = plain_token("alice")

    talk.sends(pack(">i", len(token)) + token)

    assert talk.heard_bytes() == pack(">i", 0)
    (event,) = talk.told("authentication")
    assert (event.principal, event.api_version) == ("User:alice", 0)


@pytest.mark.spec("R4")
def test_a_bare_token_that_is_wrong_has_no_answer_but_the_end() -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.shakes_hands("PLAIN", version=0)
    token = plain_token("alice", "wrong")

    talk.sends(pack(">i", len(token)) + token)

    assert talk.heard_bytes() == b""
    assert talk.close_reason == "authentication_failed"
    assert len(talk.told("authentication_failed")) == 1


@pytest.mark.spec("R9")
def test_a_mechanism_that_is_not_enabled_is_told_those_that_are() -> None:
    talk = Conversation(sasl_listener=sasl(0, "PLAIN"))

    response = talk.shakes_hands("GSSAPI")

    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert talk.close_reason == "authentication_failed"
    (event,) = talk.told("authentication_failed")
    assert event.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


@pytest.mark.spec("R6", "R9")
def test_a_wrong_password_waits_for_its_answer_and_is_closed_on() -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.shakes_hands()

    response = talk.authenticates(plain_token("alice", "wrong"))

    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert talk.closed is not None
    assert talk.closed.delay_ms == 100
    (event,) = talk.told("authentication_failed")
    assert (event.principal, event.granted) == (None, None)


@pytest.mark.spec("R9")
@pytest.mark.parametrize("after_handshake", [False, True])
def test_a_request_of_kafkas_before_authentication_ends_the_connection(after_handshake: bool) -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())
    if after_handshake:
        talk.shakes_hands()

    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))

    assert talk.close_reason == "illegal_sasl_state"
    assert talk.forwarded_bytes() == b""
    (event,) = talk.told("authentication_failed")
    assert event.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.spec("R9")
def test_a_token_before_the_handshake_has_no_answer_and_is_written_down() -> None:
    talk = Conversation(sasl_listener=sasl())

    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "authentication_failed")
    assert len(talk.told("authentication_failed")) == 1


@pytest.mark.spec("R9")
@pytest.mark.parametrize("second", [API_VERSIONS, HANDSHAKE])
def test_between_handshake_and_token_nothing_else_may_come(second: ApiKey) -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.shakes_hands()

    talk.asks(
        second,
        1,
        t.ApiVersionsRequest() if second is API_VERSIONS else t.SaslHandshakeRequest(mechanism="PLAIN"),
    )

    assert talk.closed is not None
    assert [e.error_code for e in talk.told("authentication_failed")] == [ErrorCode.ILLEGAL_SASL_STATE]


@pytest.mark.spec("R8")
def test_a_listener_without_sasl_takes_its_clients_as_anonymous_and_no_handshake() -> None:
    talk = Conversation("READ TOPIC orders", principal="ANONYMOUS")

    response = talk.shakes_hands()
    token = talk.authenticates(b"token")

    assert (response.error_code, token.error_code) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.ILLEGAL_SASL_STATE,
    )
    assert talk.closed is None
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    (denial,) = talk.told("authorization")
    assert denial.principal == "User:ANONYMOUS"


@pytest.mark.spec("O6")
def test_a_stranger_may_send_little_and_a_client_that_is_known_more() -> None:
    talk = Conversation("WRITE TOPIC orders", sasl_listener=sasl())
    talk.sends(pack(">i", 4097))
    assert talk.close_reason == "malformed_request"
    (event,) = talk.told("request_refused")
    assert event.message == "a request of 4097 bytes, more than sasl.server.max.receive.size, which is 4096"

    known = Conversation("WRITE TOPIC orders", sasl_listener=sasl())
    known.logs_in()
    known.asks(ApiKey.PRODUCE, 9, produce("orders", records=bytes(5_000)))
    assert len(known.forwarded()) == 1


@pytest.mark.spec("R9")
def test_sasl_cut_at_every_byte_leads_to_the_same_session() -> None:
    talk = Conversation(sasl_listener=sasl())
    handshake = talk.request(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    token = talk.request(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice")))

    for byte in handshake + token:
        talk.sends(bytes([byte]))

    answers = talk.heard_all((HANDSHAKE, 1), (AUTHENTICATE, 2))
    assert [message.error_code for _, message in answers] == [0, 0]
    assert len(talk.told("authentication")) == 1


@pytest.mark.spec("R9")
@pytest.mark.parametrize("version", [3, 99])
def test_after_its_answer_apiversions_is_not_asked_again_before_the_login(version: int) -> None:
    talk = Conversation(sasl_listener=sasl())
    told = t.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    talk.asks(API_VERSIONS, 3, told)
    talk.heard_bytes()

    talk.sends(talk.request(API_VERSIONS, 3, told).replace(b"\0\x12\0\x03", bytes((0, 18, 0, version))))

    assert (talk.heard_bytes(), talk.close_reason) == (b"", "illegal_sasl_state")


@pytest.mark.spec("R9")
def test_apiversions_may_be_asked_again_while_it_was_not_understood() -> None:
    talk = Conversation(sasl_listener=sasl())
    talk.asks(API_VERSIONS, 3, t.ApiVersionsRequest(client_software_name="(", client_software_version="1"))
    assert talk.heard(API_VERSIONS, 3).error_code == ErrorCode.INVALID_REQUEST

    talk.asks(API_VERSIONS, 2, t.ApiVersionsRequest())
    assert talk.heard(API_VERSIONS, 2).error_code == ErrorCode.NONE
    assert talk.logs_in().error_code == ErrorCode.NONE


@pytest.mark.spec("R9", "A1")
def test_the_record_of_a_failed_login_names_the_software_of_the_client() -> None:
    talk = Conversation(sasl_listener=sasl())
    version = "2.0.2" + "0" * 1_000
    request = t.ApiVersionsRequest(client_software_name="librdkafka", client_software_version=version)
    talk.asks(API_VERSIONS, 3, request)
    talk.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    talk.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=plain_token("alice", "falsch")))

    (event,) = talk.events
    assert event.event == "authentication_failed"
    assert event.message == f"wrong credentials for 'alice' (client: librdkafka {'2.0.2' + '0' * 59})"
