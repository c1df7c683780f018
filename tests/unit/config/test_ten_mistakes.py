"""Mistakes that people make who know Kafka, or copy a file: each gets one line that says what to do."""

from pathlib import Path

import pytest
import trustme

from proxy.commands.check import check

pytestmark = pytest.mark.spec("O5")

FILE = """\
proxy.id: proxy-1
listeners:
  - name: CLIENTS
    bind: 127.0.0.1:19092
    security.protocol: SASL_SSL
    sasl.enabled.mechanisms: [PLAIN]
    ssl: {certificate: proxy.crt, key: proxy.key}
users.file: users.yaml
upstream: {bootstrap: "127.0.0.1:9092"}
controller: {endpoints: ["127.0.0.1:9094"]}
authorizer: {class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer, super.users: User:admin}
audit: {spool.dir: spool}
http: {bind: "127.0.0.1:9190"}
"""

MISTAKES = [
    (
        'upstream: {bootstrap: "127.0.0.1:9092"}',
        "upstream: {bootstrap.servers: 127.0.0.1:9092}",
        ":9: upstream > bootstrap.servers: unknown key; write bootstrap: host:port",
    ),
    (
        "ssl: {certificate: proxy.crt, key: proxy.key}",
        "ssl: {certificate: proxy.crt, key: proxy.key, keystore.location: proxy.jks}",
        ":7: listeners[0] > ssl > keystore.location: unknown key; certificates have to be PEM files: write"
        " ssl: {certificate: FILE, key: FILE}; openssl pkcs12 converts a keystore",
    ),
    (
        'http: {bind: "127.0.0.1:9190"}',
        "http.bind: 127.0.0.1:9190",
        ":13: http.bind: unknown key; nest it: http: {bind: '127.0.0.1:9190'}",
    ),
    (
        ", super.users: User:admin}",
        "}\nsuper.users: User:admin",
        ":12: super.users: unknown key; move it: authorizer: {super.users: 'User:admin'}",
    ),
    (
        "authorizer.StandardAuthorizer, super.users: User:admin",
        "authorizer.StandardAuthorizer, super.users: 'User:admin,User:bob'",
        ":11: authorizer > super.users: 'User:admin,User:bob' contains a comma, which is part of a user's"
        " name; separate principals by semicolons: User:a;User:b",
    ),
    (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        ":11: authorizer > class.name: kafka.security.authorizer.AclAuthorizer reads ACLs from ZooKeeper,"
        " which Penstock does not use; write StandardAuthorizer, which decides in the same way, and create"
        " the ACLs again with kafka-acls",
    ),
    (
        "users.file: users.yaml",
        "users.file: users.yaml\nhttp: {bind: '127.0.0.1:9999'}",
        ":14: http: appears twice, in line 9 and in line 14; remove one of them",
    ),
    (
        "bind: 127.0.0.1:19092",
        "bind: 0.0.0.0:19092",
        ":4: listeners[0] > bind: clients cannot connect to 0.0.0.0:19092; write advertised:"
        " HOST:19092 with a name or an address that they can reach",
    ),
    (
        "bind: 127.0.0.1:19092",
        "bind: 127.0.0.1:9190",
        ":13: http > bind: 127.0.0.1:9190: listeners[0] > bind (127.0.0.1:9190) has the same port; use"
        " another one",
    ),
    (
        "key: proxy.key",
        "key: other.key",
        ":7: listeners[0] > ssl: certificate {directory}/proxy.crt with key {directory}/other.key: the key is"
        " not that of the certificate",
    ),
]


def written(directory: Path, text: str) -> Path:
    authority = trustme.CA()
    for name in ("proxy", "other"):
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(directory / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(directory / f"{name}.crt")
    (directory / "users.yaml").write_text("users:\n  admin: {password.file: secret}\n")
    (directory / "secret").write_text("admin-secret\n")
    path = directory / "proxy.yaml"
    path.write_text(text)
    return path


def test_the_file_without_a_mistake_is_right(tmp_path: Path) -> None:
    assert check(written(tmp_path, FILE)) == []


@pytest.mark.parametrize(("right", "mistake", "line"), MISTAKES)
def test_a_mistake_gets_one_line_that_says_what_to_do(
    tmp_path: Path, right: str, mistake: str, line: str
) -> None:
    assert FILE.count(right) == 1
    path = written(tmp_path, FILE.replace(right, mistake))

    assert check(path) == [f"{path}{line.replace('{directory}', str(tmp_path))}"]
