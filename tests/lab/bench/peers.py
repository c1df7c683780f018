"""Other programs that stand between clients and a broker, as further targets (`--beside`).

`splice` is compiled here. kafka-proxy and Kroxylicious are not downloaded: whoever measures them names the
program of the one, and a folder of the other with its jars in `libs`. They do less than the proxy: none has
quotas or an audit trail, and only `kroxylicious-acls` has rules.
"""

import argparse
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.bench import load
from tests.lab.bench.target import PLAIN, TLS, Target, port
from tests.lab.cluster import jvm
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.certificates import Certificates
from tests.lab.cluster.java import java
from tests.lab.cluster.ports import LOOPBACK, free_addresses
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.users import User

SPLICE = "SPLICE"
"""The listener of the broker that advertises the address of the relay in C. The others rewrite addresses."""
_HEAP = ("-Xms1g", "-Xmx1g")
_SUBJECTS = Path(__file__).with_name("Anonymous.java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where peers stand, and who uses them."""

    directory: Path
    broker: Broker
    behind_splice: str
    """The address of the listener SPLICE, and what that advertises:"""
    splice: str
    user: User
    tls: Certificates
    other_users: Sequence[str]

    def process(self, name: str, command: Sequence[str]) -> ChildProcess:
        return ChildProcess(name, command, self.directory / f"{name}.log")


def _splice(place: Place, _: Path | None) -> Target:
    program = load.compiled(place.directory, "splice")
    command = [str(program), port(place.splice), port(place.behind_splice)]
    addresses = {PLAIN: place.splice}
    return Target("splice", addresses, [place.process("splice", command)], place.user, place.tls)


def _kafka_proxy(place: Place, program: Path | None) -> Target:
    """Two processes: one has TLS on all its listeners, or on none."""
    addresses = dict(zip((PLAIN, TLS), free_addresses(2), strict=True))
    tls = ["--proxy-listener-tls-enable", "--proxy-listener-cert-file", str(place.tls.certificate)]
    tls += ["--proxy-listener-key-file", str(place.tls.key)]
    command = [str(program), "server", "--http-disable", "--dynamic-listeners-disable"]
    command += ["--default-listener-ip", LOOPBACK, "--bootstrap-server-mapping"]
    processes = [
        place.process(
            f"kafka-proxy-{listener}",
            [*command, f"{place.broker.plaintext},{address}", *(tls if listener == TLS else [])],
        )
        for listener, address in addresses.items()
    ]
    return Target("kafka-proxy", addresses, processes, place.user, place.tls)


def _kroxylicious(place: Place, directory: Path | None) -> Target:
    return _run_kroxylicious("kroxylicious", place, directory, {}, {})


def _kroxylicious_acls(place: Place, directory: Path | None) -> Target:
    """With rules like the ACLs. Anonymous.java gives a name to clients that do not log in."""
    name = "kroxylicious-acls"
    rules = place.directory / "rules"
    place.directory.mkdir(parents=True, exist_ok=True)
    rules.write_text(acl_rules(place.other_users), encoding="utf-8")
    config = {"authorizer": "AclAuthorizerService", "authorizerConfig": {"aclFile": str(rules)}}
    filters = {
        "filterDefinitions": [{"name": "acls", "type": "Authorization", "config": config}],
        "defaultFilters": ["acls"],
    }
    return _run_kroxylicious(
        name, place, directory, filters, {"subjectBuilder": {"type": _SUBJECTS.stem, "config": {}}}
    )


def _run_kroxylicious(
    name: str, place: Place, directory: Path | None, more: Mapping[str, Any], of_cluster: Mapping[str, Any]
) -> Target:
    assert directory is not None
    libs = directory / "libs"
    addresses = dict(zip((PLAIN, TLS), free_addresses(2), strict=True))
    pem = str(place.tls.key_and_certificate)
    gateways = [
        {
            "name": listener.lower().replace("_", "-"),
            "portIdentifiesNode": {
                "bootstrapAddress": address,
                "nodeStartPort": int(port(free_addresses(1)[0])),
                "nodeIdRanges": [{"name": "all", "start": place.broker.node_id, "end": place.broker.node_id}],
            },
            **({"tls": {"key": {"privateKeyFile": pem, "certificateFile": pem}}} if listener == TLS else {}),
        }
        for listener, address in addresses.items()
    ]
    target = {"bootstrapServers": place.broker.plaintext}
    cluster = {"name": "bench", "targetCluster": target, "gateways": gateways, **of_cluster}
    file = place.directory / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"virtualClusters": [cluster], **more}), encoding="utf-8")
    command = jvm.command(
        libs,
        "io.kroxylicious.app.Kroxylicious",
        ["--config", str(file)],
        _HEAP,
        "WARN",
        _anonymous(libs, place.directory / "classes") if of_cluster else None,
    )
    return Target(name, addresses, [place.process(name, command)], place.user, place.tls, java=True)


def acl_rules(users: Sequence[str]) -> str:
    """Return the file of the authorization filter that says what the ACLs of the bench say."""
    rules = [
        'allow User with name = "ANONYMOUS" to {READ, WRITE} Topic with name like "bench*";',
        'allow User with name = "ANONYMOUS" to READ Group with name like "bench*";',
        *(
            f'allow User with name = "{user}" to WRITE Topic with name like "bench-small-{number}*";'
            for number, user in enumerate(users)
        ),
    ]
    head = "from io.kroxylicious.filter.authorization import TopicResource as Topic, GroupResource as Group;"
    return "\n".join([head, *rules, "otherwise deny;", ""])


def _anonymous(libs: Path, classes: Path) -> Path:
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True, exist_ok=True)
    service = "io.kroxylicious.proxy.authentication.TransportSubjectBuilderService"
    (services / service).write_text(f"{_SUBJECTS.stem}\n")
    javac = str(Path(java()).resolve().with_name("javac"))
    subprocess.run([javac, "-cp", jvm.class_path(libs), "-d", str(classes), str(_SUBJECTS)], check=True)
    return classes


PEERS: Mapping[str, Callable[[Place, Path | None], Target]] = {
    "splice": _splice,
    "kafka-proxy": _kafka_proxy,
    "kroxylicious": _kroxylicious,
    "kroxylicious-acls": _kroxylicious_acls,
}


WORDS = "splice, kafka-proxy=PROGRAM, kroxylicious=FOLDER, kroxylicious-acls=FOLDER"


def named(word: str) -> tuple[str, Path | None]:
    """Return the peer that a word of `--beside` names, and where it is."""
    name, _, where = word.partition("=")
    if name not in PEERS or (name == "splice") == bool(where):
        raise argparse.ArgumentTypeError(f"{word} is none of {WORDS}")
    if where and not Path(where).exists():
        raise argparse.ArgumentTypeError(f"{word}: there is no {where}")
    return name, Path(where).resolve() if where else None
