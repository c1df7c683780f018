"""Principals as text and as the bytes in an Envelope, and hosts as ACLs name them."""

import pytest

from proxy.security.authorizer import host_address
from proxy.security.principal import (
    ANONYMOUS,
    GROUPS_TAG,
    Principal,
    deserialize,
    parse_principal,
    serialize,
)
from proxy.wire import codecs, types


@pytest.mark.spec("A3")
@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a,O=b:c", Principal("User", "CN=a,O=b:c")),
        ("User:", Principal("User", "")),
        ("Group:ops", Principal("Group", "ops")),
    ],
)
def test_a_principal_reads_and_writes_as_type_and_name(text: str, principal: Principal) -> None:
    assert (parse_principal(text), str(principal)) == (principal, text)


@pytest.mark.spec("A3")
def test_a_principal_without_a_type_is_refused() -> None:
    with pytest.raises(ValueError, match="'alice'"):
        parse_principal("alice")


@pytest.mark.spec("R5")
def test_how_somebody_authenticated_is_not_part_of_who_it_is() -> None:
    assert Principal("User", "a", token_authenticated=True) == Principal("User", "a")


@pytest.mark.spec("E7")
@pytest.mark.parametrize(
    "principal", [ANONYMOUS, Principal("User", "álice", token_authenticated=True), Principal("Group", "")]
)
def test_a_principal_survives_the_trip_through_its_bytes(principal: Principal) -> None:
    returned = deserialize(serialize(principal))

    assert (returned, returned.token_authenticated) == (principal, principal.token_authenticated)


@pytest.mark.spec("E7")
def test_the_bytes_are_those_of_kafkas_default_serde() -> None:
    # int16 version 0; compact strings carry their length plus one; the flag; no tagged fields.
    assert (
        serialize(Principal("User", "alice", token_authenticated=True))
        == b"\x00\x00\x05User\x06alice\x01\x00"
    )


@pytest.mark.spec("E7")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x01\x05User\x06alice\x00\x00",
        b"\xff\xff\x05User\x06alice\x00\x00",
        b"\x00\x00\x05User\x06alic",
        b"\x00\x00\x05User\x06alice\x00\x00\x00",
        b"\x00\x00\x07User:a\x02b\x00\x00",
        b"\x00\x00\x05\xff\xff\xff\xff\x06alice\x00\x00",
    ],
    ids=["empty", "half a version", "version", "v1", "v-1", "cut", "longer", "colon", "not UTF-8"],
)
def test_bytes_that_are_no_principal_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="principal"):
        deserialize(raw)


MEMBER = b"\x00\x00\x05User\x06alice\x00\x01\x90\x4e"


@pytest.mark.spec("E7", "A8")
def test_groups_are_a_tagged_field_that_kafka_reads_over() -> None:
    # One tagged field: number 10,000 as a varint, its size, its bytes.
    raw = serialize(Principal("User", "alice", groups=("admins", "zürich")))

    assert raw == MEMBER + b"\x0eadmins\nz\xc3\xbcrich"
    assert deserialize(raw).groups == ("admins", "zürich")
    assert deserialize(serialize(Principal("User", "alice"))).groups == ()


@pytest.mark.spec("E7", "A8")
def test_as_many_groups_as_a_session_may_have_arrive() -> None:
    most = tuple(f"{number:016}" for number in range(1_000))

    assert deserialize(serialize(Principal("User", "alice", groups=most))).groups == most


@pytest.mark.spec("E7", "A8")
@pytest.mark.parametrize(
    "groups",
    [
        b"",
        b"a\n",
        b"b\na",
        b"a\na",
        b"*",
        b"a\x00b",
        b"\xff",
        b"\n".join(b"%04d" % number for number in range(1_001)),
        b"\n".join(b"%0120d" % number for number in range(200)),
        b"x" * 20_000,
    ],
    ids=["empty", "empty name", "order", "twice", "star", "control", "not UTF-8", "many", "large", "long"],
)
def test_groups_that_no_session_has_are_an_error(groups: bytes) -> None:
    data = types.DefaultPrincipalData(type="User", name="alice", unknown_tags={GROUPS_TAG: groups})
    raw = b"\x00\x00" + codecs.of(types.DefaultPrincipalData, 0).encode(data)

    with pytest.raises(ValueError, match="the groups of a principal"):
        deserialize(raw)


@pytest.mark.spec("A3", "E1")
@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        (b"\x0a\x00\x00\x01", "10.0.0.1"),
        (bytes(15) + b"\x01", "0:0:0:0:0:0:0:1"),
        (bytes(10) + b"\xff\xff\x0a\x00\x00\x01", "10.0.0.1"),
    ],
)
def test_an_address_is_written_as_java_writes_it(address: str | bytes, text: str) -> None:
    assert host_address(address) == text


@pytest.mark.spec("A3", "E1")
@pytest.mark.parametrize("address", ["", "localhost", "10.0.0", b"", b"\x0a\x00\x00", bytes(5), bytes(17)])
def test_what_is_no_address_is_refused(address: str | bytes) -> None:
    with pytest.raises(ValueError, match="address"):
        host_address(address)
