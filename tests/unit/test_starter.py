"""`penstock init`: what it writes can be used as it is, and nothing is lost by it."""

import re
import shlex
import stat
from importlib.resources import files
from pathlib import Path
from shutil import copy

import pytest
from cryptography import x509

from forwarding.config import ControllerConfig
from proxy.commands.check import check, checked, compared
from proxy.commands.init import InitError, Wanted, example, write_examples
from proxy.config import ProxyConfig, load
from proxy.config.parts import secret_files
from proxy.metadata.signing_keys import PublicKeys, SigningKey
from proxy.net.clients.acceptor import BACKLOG
from proxy.workers.supervisor import ENDING_MS
from spark_audit.__main__ import parser

pytestmark = pytest.mark.spec("O5")

EXAMPLES = Path(str(files("proxy").joinpath("examples")))


def unit(key: str, name: str = "penstock@.service") -> str:
    text = example(f"systemd/{name}")
    return next(line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}="))


@pytest.mark.parametrize("host", ["localhost", "kafka-1.example.org", "10.1.2.3", "2001:db8::1"])
def test_penstock_check_accepts_what_init_writes(tmp_path: Path, host: str) -> None:
    write_examples(Wanted(tmp_path, host=host))

    both = [checked(tmp_path / name) for name in ("proxy.yaml", "controller.yaml")]

    assert [each.problems for each in both] == [[], []]
    # Both run on one machine, and neither has a file that others can read.
    assert compared(both) == []
    assert [line for each in both for line in each.warnings if "every user" in line] == []


@pytest.mark.parametrize("kind", ["sidecar", "controller"])
def test_a_process_alone_gets_all_that_its_file_names(tmp_path: Path, kind: str) -> None:
    written = {path.name for path in write_examples(Wanted(tmp_path, kind))}

    name, other = ("proxy", "controller") if kind == "sidecar" else ("controller", "proxy")
    assert check(tmp_path / f"{name}.yaml") == []
    assert not (tmp_path / f"{other}.yaml").exists()
    assert {f"{name}.crt", f"{name}.key", "ca.crt"} <= written


def test_certificates_are_issued_by_the_ca_for_the_name_that_was_asked_for(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path, host="kafka-1.example.org"))

    ca, issued = (
        x509.load_pem_x509_certificate((tmp_path / "secrets" / name).read_bytes())
        for name in ("ca.crt", "proxy.crt")
    )

    issued.verify_directly_issued_by(ca)
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "kafka-1.example.org"]


def test_secrets_are_readable_by_their_owner_only_and_random(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path / "one"))
    write_examples(Wanted(tmp_path / "two"))

    found = sorted((tmp_path / "one" / "secrets").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "one" / "secrets").stat().st_mode) == 0o700
    assert [p for p in found if p.read_bytes() == (tmp_path / "two" / "secrets" / p.name).read_bytes()] == []


def test_nothing_is_overwritten_and_nothing_is_written_when_a_file_is_another(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text("users: {}\n")

    with pytest.raises(InitError, match=r"exist with other content: .*users\.yaml; --force"):
        write_examples(Wanted(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["users.yaml"]


def test_force_overwrites_files_and_leaves_secrets(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path))
    (tmp_path / "users.yaml").write_text("users: {}\n")
    kept = {path: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}

    assert write_examples(Wanted(tmp_path, force=True)) == [tmp_path / "users.yaml"]

    assert (tmp_path / "users.yaml").read_text() == example("users.yaml")
    assert {path: path.read_bytes() for path in (tmp_path / "secrets").iterdir()} == kept


def test_a_second_time_writes_nothing_and_the_other_kind_comes_beside_the_first(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path, "controller"))

    assert write_examples(Wanted(tmp_path, "controller")) == []
    names = {path.name for path in write_examples(Wanted(tmp_path, "sidecar"))}

    units = {"penstock@proxy.socket"}
    assert names == {"proxy.yaml", "users.yaml", "admin.password", "proxy.crt", "proxy.key"} | units
    assert check(tmp_path / "proxy.yaml") == []


def test_half_an_authority_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path, "controller"))
    (tmp_path / "secrets" / "ca.key").unlink()

    with pytest.raises(InitError, match=r"only one of .* exists; if the authority is on another machine"):
        write_examples(Wanted(tmp_path, "sidecar"))


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InitError, match="Not a directory"):
        write_examples(Wanted(tmp_path / "file" / "below"))


@pytest.mark.spec("O4")
def test_the_unit_gives_a_process_its_time_and_its_files(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path))
    config = checked(tmp_path / "proxy.yaml").config
    assert config is not None

    assert int(unit("TimeoutStopSec")) * 1000 > config.limits.drain_timeout_ms + ENDING_MS
    assert int(unit("LimitNOFILE")) > 21_256
    assert (unit("ExecReload"), unit("Restart")) == ("/bin/kill -HUP $MAINPID", "on-failure")
    # Else a successor could not become the main process, and would be ended with the one before (0066).
    assert (unit("Type"), unit("NotifyAccess"), unit("KillMode")) == ("notify", "all", "mixed")
    text = (tmp_path / "systemd" / "penstock@.service").read_text()
    assert "@PENSTOCK@" not in text
    assert "penstock %i -c /etc/penstock/%i.yaml" in text


@pytest.mark.spec("O4")
def test_the_socket_unit_holds_the_address_of_the_listener(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path, "sidecar"))
    config = checked(tmp_path / "proxy.yaml").config
    assert isinstance(config, ProxyConfig)

    (listener,) = config.listeners
    assert unit("ListenStream", "penstock@proxy.socket") == listener.bind
    assert unit("Backlog", "penstock@proxy.socket") == str(BACKLOG)
    assert (tmp_path / "systemd" / "penstock@proxy.socket").is_file()


@pytest.mark.spec("D9")
def test_the_unit_of_the_audit_service_runs_what_its_command_takes(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path))
    text = (tmp_path / "systemd" / "penstock-audit.service").read_text()
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", text, re.MULTILINE)
    program, audit, *words = shlex.split(command.replace("\\\n", ""))

    arguments = parser().parse_args(words)

    assert (Path(program).name, audit) == ("penstock", "audit")
    assert (arguments.continuous, arguments.http) == (True, "127.0.0.1:9192")
    # All that it can write to.
    state = f"/var/lib/{unit('StateDirectory', 'penstock-audit.service')}/"
    assert {str(path).startswith(state) for path in (arguments.tables, arguments.out)} == {True}
    assert unit("Environment", "penstock-audit.service").startswith(f"XDG_CACHE_HOME={state}")


def test_every_secret_of_the_examples_is_known_as_one(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path))
    config = checked(tmp_path / "proxy.yaml").config
    assert config is not None

    named = {path.name for _, path in secret_files(config)}

    assert named == {"proxy.key", "controller.password"}


def signed_by(directory: Path) -> tuple[SigningKey, PublicKeys]:
    return (
        SigningKey.load(directory / "secrets" / "signing.key"),
        PublicKeys.load(directory / "secrets" / "controllers.pub"),
    )


@pytest.mark.spec("S14")
def test_the_metadata_log_is_signed_by_a_key_that_only_the_controller_gets(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path / "controller", "controller"))
    write_examples(Wanted(tmp_path / "other", "controller"))
    write_examples(Wanted(tmp_path / "proxy", "sidecar"))

    key, keys = signed_by(tmp_path / "controller")
    controller = load(tmp_path / "controller" / "controller.yaml", ControllerConfig)
    assert (key.id in keys, len(keys)) == (True, 1)
    assert signed_by(tmp_path / "other")[0].id not in keys
    assert controller.metadata.verifier() is not None
    signing = controller.metadata.signing_key()
    assert signing is not None
    assert signing.id == key.id
    # A proxy elsewhere has no keys before it gets the public ones.
    proxy = tmp_path / "proxy"
    assert not {"signing.key", "controllers.pub"} & {path.name for path in (proxy / "secrets").iterdir()}
    assert load(proxy / "proxy.yaml", ProxyConfig).metadata.verifier() is None
    copy(tmp_path / "controller" / "secrets" / "controllers.pub", proxy / "secrets")
    write_examples(Wanted(proxy, "sidecar", force=True))
    assert load(proxy / "proxy.yaml", ProxyConfig).metadata.verifier() is not None
    assert not (proxy / "secrets" / "signing.key").exists()


@pytest.mark.spec("S14")
def test_the_key_of_another_controller_is_added_to_those_that_are_there(tmp_path: Path) -> None:
    write_examples(Wanted(tmp_path / "one"))
    write_examples(Wanted(tmp_path / "one"))
    (tmp_path / "two" / "secrets").mkdir(parents=True)
    copy(tmp_path / "one" / "secrets" / "controllers.pub", tmp_path / "two" / "secrets")

    write_examples(Wanted(tmp_path / "two", "controller"))

    (first, alone), (second, both) = signed_by(tmp_path / "one"), signed_by(tmp_path / "two")
    assert (len(alone), len(both)) == (1, 2)
    assert all(each.id in both for each in (first, second))
    (tmp_path / "two" / "secrets" / "controllers.pub").write_text("no key")
    with pytest.raises(InitError, match=r"controllers\.pub: must have Ed25519 public keys"):
        write_examples(Wanted(tmp_path / "two", "controller"))
