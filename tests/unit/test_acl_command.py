"""`penstock acl`: its arguments, the settings of a Kafka client, and a cluster that knows no ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.commands import acl
from proxy.commands.acl_requests import RequestFailed
from proxy.commands.properties import SettingError, endpoint_of, properties_of
from proxy.metadata.acl import UNTIL_TAG, tags_of_end
from proxy.net.kafka.channel import Channel
from proxy.wire import types
from spark_audit.proposal import acl_command

pytestmark = pytest.mark.spec("A11")

ADD = ("--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders")
UNTIL = "2027-01-31T18:00Z"
UNTIL_MS = 1_801_418_400_000
AT = ("--bootstrap-server", "proxy:9092")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (ADD, "--bootstrap-server"),
        ((*AT, *ADD, "--remove"), "either --add or --remove"),
        ((*AT, "--list", "--until", UNTIL), "--list goes without"),
        ((*AT, *ADD, "--until", "tomorrow"), "no time with a zone"),
        ((*AT, *ADD, "--untill", UNTIL), "--untill is unknown"),
        ((*AT, *ADD, "--command-config", "/does/not/exist"), "No such file"),
        (("--bootstrap-server", "proxy", *ADD), "expected host:port, found 'proxy'"),
        (("--bootstrap-server", "a:1,b:99999", *ADD), "ports end at 65535"),
    ],
)
def test_wrong_arguments_are_named(
    words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acl", *words]) == 2
    assert fault in capsys.readouterr().err


def test_help_says_what_an_end_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acl", "--help"]) == 0
    assert UNTIL in capsys.readouterr().out


def test_the_settings_of_a_kafka_client_are_read(tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text(
        "# of the administrator\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism = SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '   username="admin" password="a \\\\"b\\\\" = c";\n'
    )

    endpoint = endpoint_of("one:1,two:2", properties_of(file))

    assert (endpoint.host, endpoint.port, endpoint.others) == ("one", 1, (("two", 2),))
    assert endpoint.ssl is None
    assert endpoint.sasl is not None
    assert (endpoint.sasl.mechanism, endpoint.sasl.username) == ("SCRAM-SHA-256", "admin")
    assert endpoint.sasl.password() == 'a "b" = c'


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("security.protocol: SASL_SSL", {"security.protocol": "SASL_SSL"}),
        ("  security.protocol  SASL_SSL\t", {"security.protocol": "SASL_SSL"}),
        ("# C:\\\\dir\\\nclient.id=a", {"client.id": "a"}),
        ("client.id=a\\\r\n  # b", {"client.id": "a# b"}),
        ("a\\ b\\=c=d\\\\", {"a b=c": "d\\"}),
        ("client.id=\\u00e9\\tx\\y", {"client.id": "é\txy"}),
        ("client.id=a\u2028b", {"client.id": "a\u2028b"}),
        ("client.id", {"client.id": ""}),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(
    text: str, settings: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "admin.properties"
    file.write_bytes(text.encode())

    assert {key: value for key, value in properties_of(file).items() if key} == settings


@pytest.mark.parametrize(
    ("options", "password"),
    [
        (r'username="admin" password="a \\"b\\" = c\\\\d";', 'a "b" = c\\d'),
        (r"username=admin password='x\\'y' tokenauth='true' ;", "x'y"),
        ('password = "" username="admin";', ""),
    ],
)
def test_a_password_is_the_one_that_kafka_reads(options: str, password: str, tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} {options}\n"
    )

    sasl = endpoint_of("proxy:9092", properties_of(file)).sasl
    assert sasl is not None
    assert (sasl.username, sasl.password()) == ("admin", password)


@pytest.mark.parametrize(
    "jaas",
    [
        f'{PLAIN} username="admin" password="a "b" = c";',
        f'{PLAIN} username="admin" password="geheim"',
        f'{PLAIN} username="admin" # password="geheim";',
        'username="admin" password="geheim";',
    ],
)
def test_what_kafka_cannot_read_is_no_login_and_its_password_is_not_shown(jaas: str) -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config cannot be read") as raised:
        endpoint_of("proxy:9092", settings)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is TLS"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is GSSAPI"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "no username"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "a.jks"}, "only PEM"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "-----"}, "certificates is not read"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingError, match=fault):
        endpoint_of("proxy:9092", settings)


class Answering(Channel):
    """A cluster that may or may not know ends, and may make an ACL without one."""

    def __init__(self, *, knows_ends: bool, makes_ends: bool = True) -> None:
        self.endpoint = endpoint_of("proxy:9092", {})
        self.knows_ends, self.makes_ends = knows_ends, makes_ends
        self.created: list[Any] = []

    async def close(self) -> None:
        pass

    async def send(self, message: Any, versions: Any, *, timeout_ms: int | None = None) -> Any:
        if isinstance(message, types.CreateAclsRequest):
            assert versions == (2, 3)
            self.created += message.creations
            result = types.CreateAclsResponse.AclCreationResult
            return types.CreateAclsResponse(results=[result() for _ in message.creations])
        described = types.DescribeAclsResponse.DescribeAclsResource
        acls = [
            types.DescribeAclsResponse.AclDescription(
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
                unknown_tags=each.unknown_tags if self.makes_ends else None,
            )
            for each in self.created
        ]
        return types.DescribeAclsResponse(
            unknown_tags={UNTIL_TAG: b""} if self.knows_ends else None,
            resources=[
                described(resource_type=2, resource_name="orders", pattern_type=3, acls=acls),
            ],
        )


def adds(channel: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(_endpoint: object) -> Answering:
        return channel

    monkeypatch.setattr(Channel, "open", opened)
    command = acl_command([*ADD, "--until", UNTIL])
    asyncio.run(acl._change(channel.endpoint, command.added, command.removed, command.until_ms))


def test_an_acl_with_an_end_is_made_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = Answering(knows_ends=True)
    adds(channel, monkeypatch)

    assert [each.unknown_tags for each in channel.created] == [tags_of_end(UNTIL_MS)]
    assert "permissionType=ALLOW, until=2027-01-31T18:00:00.000Z)" in capsys.readouterr().out


def test_a_cluster_that_knows_no_ends_is_sent_no_acl_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Answering(knows_ends=False)

    with pytest.raises(RequestFailed, match="knows no ACLs with an end; nothing was added"):
        adds(channel, monkeypatch)
    assert channel.created == []


def test_an_end_that_was_not_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestFailed, match="the end was not made"):
        adds(Answering(knows_ends=True, makes_ends=False), monkeypatch)
