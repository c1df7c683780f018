"""`penstock export`, `diff` and `apply` against a cluster in memory: what they send, and what they say."""

import asyncio
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

import pytest

from proxy.__main__ import main
from proxy.metadata.acl import UNTIL_TAG
from proxy.metadata.scram import ScramMechanism, salted_password
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("O15")

CHANGING = ApiKey.CREATE_ACLS, ApiKey.ALTER_CLIENT_QUOTAS
EMPTY = "acls: []\nquotas: []\nusers: []\nowners: []\n"
FULL = """\
acls:
- {resource.type: CLUSTER, resource.name: kafka-cluster, principal: 'User:$${odd}', operation: ALTER}
- {resource.type: TOPIC, resource.name: a, principal: 'User:al', operation: WRITE, permission.type: DENY}
- {resource.type: TOPIC, resource.name: a, pattern.type: PREFIXED, principal: 'User:al', host: 10.0.0.0/8, \
operation: READ, until: '2039-07-31T05:20:40.825Z'}
quotas:
- {client-id: c, user: null, quota: producer_byte_rate, limit: 5000000000}
- {user: al, quota: request_percentage, limit: 12.5}
users:
- {name: al, mechanism: SCRAM-SHA-256, iterations: 4096}
- {name: al, mechanism: SCRAM-SHA-512, iterations: 8192, until: '2039-07-31T05:20:40.825Z'}
owners:
- {topic: a, owner: 'User:al'}
"""


class Cluster:
    """Rights in memory, by what a client may see of them. `faults`: API key -> error code of each part."""

    def __init__(self, *, knows_ends: bool = True) -> None:
        self.acls: dict[tuple[Any, ...], dict[int, bytes] | None] = {}
        self.quotas: dict[tuple[Any, ...], float] = {}
        self.users: dict[tuple[str, int], Any] = {}
        self.owners: dict[str, str | None] = {"a": None}
        self.faults: dict[int, ErrorCode] = {}
        self.knows_ends = knows_ends
        self.broker = FakeBroker(
            {
                ApiKey.DESCRIBE_ACLS: self.describe_acls,
                ApiKey.CREATE_ACLS: self.create_acls,
                ApiKey.DELETE_ACLS: self.delete_acls,
                ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe_quotas,
                ApiKey.ALTER_CLIENT_QUOTAS: self.alter_quotas,
                ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_users,
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter_users,
                ApiKey.METADATA: self.metadata,
                ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
                ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter_configs,
            }
        )

    async def run(self, *words: object) -> int:
        command, *rest = map(str, words)
        return await asyncio.to_thread(main, [command, "--bootstrap-server", self.broker.address, *rest])

    def sent(self) -> list[int]:
        """The keys of the requests since the last call, without those of connecting."""
        keys = [each.header.api_key for each in self.broker.requests]
        self.broker.requests.clear()
        return [key for key in keys if key != ApiKey.API_VERSIONS]

    def describe_acls(self, _: Request) -> Any:
        response = types.DescribeAclsResponse
        return response(
            unknown_tags={UNTIL_TAG: b""} if self.knows_ends else None,
            resources=[
                response.DescribeAclsResource(
                    resource_type=kind,
                    resource_name=name,
                    pattern_type=pattern,
                    acls=[
                        response.AclDescription(
                            principal=principal,
                            host=host,
                            operation=operation,
                            permission_type=permission,
                            unknown_tags=tags,
                        )
                    ],
                )
                for (kind, name, pattern, principal, host, operation, permission), tags in self.acls.items()
            ],
        )

    def create_acls(self, request: Request) -> Any:
        code = self.faults.get(ApiKey.CREATE_ACLS, ErrorCode.NONE)
        for each in request.message.creations:
            if not code:
                place = each.resource_type, each.resource_name, each.resource_pattern_type
                entry = each.principal, each.host, each.operation, each.permission_type
                self.acls[*place, *entry] = each.unknown_tags
        result = types.CreateAclsResponse.AclCreationResult
        return types.CreateAclsResponse(results=[result(error_code=code) for _ in request.message.creations])

    def delete_acls(self, request: Request) -> Any:
        for each in request.message.filters:
            place = each.resource_type_filter, each.resource_name_filter, each.pattern_type_filter
            del self.acls[
                *place, each.principal_filter, each.host_filter, each.operation, each.permission_type
            ]
        result = types.DeleteAclsResponse.DeleteAclsFilterResult
        return types.DeleteAclsResponse(filter_results=[result() for _ in request.message.filters])

    def describe_quotas(self, _: Request) -> Any:
        response = types.DescribeClientQuotasResponse
        return response(
            entries=[
                response.EntryData(
                    entity=[response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[response.ValueData(key=key, value=value)],
                )
                for (entity, key), value in self.quotas.items()
            ]
        )

    def alter_quotas(self, request: Request) -> Any:
        response = types.AlterClientQuotasResponse
        code = self.faults.get(ApiKey.ALTER_CLIENT_QUOTAS, ErrorCode.NONE)
        entries = []
        for entry in request.message.entries:
            entity = tuple((part.entity_type, part.entity_name) for part in entry.entity)
            for op in entry.ops if not code else ():
                if op.remove:
                    del self.quotas[entity, op.key]
                else:
                    self.quotas[entity, op.key] = op.value
            parts = [response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            entries.append(response.EntryData(error_code=code, entity=parts))
        return response(entries=entries)

    def describe_users(self, _: Request) -> Any:
        response = types.DescribeUserScramCredentialsResponse
        result = response.DescribeUserScramCredentialsResult
        return response(
            unknown_tags={UNTIL_TAG: b""} if self.knows_ends else None,
            results=[
                result(
                    user=name,
                    credential_infos=[
                        response.CredentialInfo(
                            mechanism=kind, iterations=new.iterations, unknown_tags=new.unknown_tags
                        )
                        for (user, kind), new in self.users.items()
                        if user == name
                    ],
                )
                for name in sorted({user for user, _ in self.users})
            ],
        )

    def alter_users(self, request: Request) -> Any:
        names = [each.name for each in (*request.message.deletions, *request.message.upsertions)]
        assert len(names) == len(set(names)), "a user that is altered twice in a request is rejected"
        for each in request.message.deletions:
            del self.users[each.name, each.mechanism]
        for each in request.message.upsertions:
            self.users[each.name, each.mechanism] = each
        response = types.AlterUserScramCredentialsResponse
        return response(results=[response.AlterUserScramCredentialsResult(user=name) for name in names])

    def metadata(self, request: Request) -> Any:
        assert request.message.topics is None
        response = types.MetadataResponse
        return response(topics=[response.MetadataResponseTopic(name=name) for name in self.owners])

    def describe_configs(self, request: Request) -> Any:
        response = types.DescribeConfigsResponse
        result, config = response.DescribeConfigsResult, response.DescribeConfigsResourceResult
        return response(
            results=[
                result(
                    resource_type=2,
                    resource_name=each.resource_name,
                    configs=[config(name="owner", value=self.owners[each.resource_name])],
                )
                for each in request.message.resources
            ]
        )

    def alter_configs(self, request: Request) -> Any:
        for each in request.message.resources:
            self.owners[each.resource_name] = each.configs[0].value
        response = types.IncrementalAlterConfigsResponse
        result = response.AlterConfigsResourceResponse
        return response(
            responses=[result(resource_name=each.resource_name) for each in request.message.resources]
        )


def file(directory: Path, text: str) -> Path:
    path = directory / "rights.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def with_passwords(text: str, directory: Path) -> str:
    (directory / "al.txt").write_text("from a file\n", encoding="utf-8")
    return text.replace("iterations: 4096}", "iterations: 4096, password.file: al.txt}").replace(
        "iterations: 8192,", "iterations: 8192, password.env: AL_PASSWORD,"
    )


async def test_what_is_applied_is_exported_again_and_then_nothing_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AL_PASSWORD", "from the environment")
    cluster = Cluster()
    path = file(tmp_path, with_passwords(FULL, tmp_path))
    async with cluster.broker:
        assert await cluster.run("apply", path) == 0
        assert capsys.readouterr().out.endswith("8 changes made\n")
        changes = [key for key in cluster.sent() if not ApiKey.name_of(key).startswith(("Describe", "Meta"))]
        assert await cluster.run("export") == 0
        assert capsys.readouterr().out == FULL
        assert await cluster.run("diff", path, "--prune") == 0

        assert await cluster.run("apply", file(tmp_path, EMPTY), "--prune") == 0
        capsys.readouterr()
        assert await cluster.run("export") == 0
        assert capsys.readouterr().out == EMPTY

    # Limits and ACLs before users; the second round is the other mechanism of the same user.
    alter_users = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    limits = ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.CREATE_ACLS, ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert changes == [*limits, alter_users, alter_users]


@pytest.mark.spec("D19")
async def test_the_client_id_of_a_change_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, path = Cluster(), file(tmp_path, "quotas:\n- {user: al, quota: request_percentage, limit: 5}\n")
    async with cluster.broker:
        assert await cluster.run("apply", path) == 0
        ids = {each.header.client_id for each in cluster.broker.requests if each.header.api_key in CHANGING}

    assert ids == {f"penstock-admin-{sha256(path.read_bytes()).hexdigest()[:16]}"}


async def test_passwords_are_those_of_the_file_and_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AL_PASSWORD", "from the environment")
    cluster = Cluster()
    async with cluster.broker:
        assert await cluster.run("apply", file(tmp_path, with_passwords(FULL, tmp_path))) == 0

    stored = {kind: new for (_, kind), new in cluster.users.items()}
    for number, password in ((1, "from a file"), (2, "from the environment")):
        new = stored[number]
        salted = salted_password(ScramMechanism(number), password, new.salt, new.iterations)
        assert bytes(new.salted_password) == salted
    assert bytes(stored[1].salt) != bytes(stored[2].salt)


async def test_fourteen_acls_need_four_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    old = [(2, f"old{number}", 3, "User:x", "*", 3, 3) for number in range(7)]
    cluster.acls = dict.fromkeys(old)
    new = "".join(
        f"- {{resource.type: TOPIC, resource.name: t{number}, principal: User:x, operation: READ}}\n"
        for number in range(7)
    )
    async with cluster.broker:
        path = file(tmp_path, f"acls:\n{new}")
        assert await cluster.run("apply", path, "--prune") == 0

    keys = ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_ACLS
    assert cluster.sent() == list(keys)
    assert capsys.readouterr().out.endswith("14 changes made\n")
    assert {key[1] for key in cluster.acls} == {f"t{number}" for number in range(7)}


async def test_nothing_is_deleted_without_prune_nor_in_sections_that_the_file_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.acls = {(2, "kept", 3, "User:x", "*", 3, 3): None}
    cluster.quotas = {((("user", "x"),), "producer_byte_rate"): 1.0}
    async with cluster.broker:
        assert await cluster.run("diff", file(tmp_path, "acls: []\n")) == 0
        assert "1 more are not in the file; --prune deletes them" in capsys.readouterr().err
        assert await cluster.run("apply", file(tmp_path, "acls: []\n")) == 0
        assert len(cluster.acls) == 1
        assert await cluster.run("apply", file(tmp_path, "acls: []\n"), "--prune", "--dry-run") == 0
        assert capsys.readouterr().out.splitlines()[-2].startswith("- ALLOW User:x from * READ TOPIC")
        assert len(cluster.acls) == 1
        assert await cluster.run("apply", file(tmp_path, "acls: []\n"), "--prune") == 0
    assert (cluster.acls, len(cluster.quotas)) == ({}, 1)


async def test_diff_has_each_change_as_an_object_and_a_proposal_for_what_if(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.quotas = {((("user", "al"),), "request_percentage"): 10.0}
    proposed = tmp_path / "proposal.txt"
    async with cluster.broker:
        exit_code = await cluster.run("diff", file(tmp_path, FULL), "--json", "--proposal", proposed)
        found = json.loads(capsys.readouterr().out)
        assert await cluster.run("export", "--as", "commands", "--only", "quotas") == 0
        commands = capsys.readouterr().out

    assert exit_code == 1
    assert not found["equal"]
    row = {"user": "al", "quota": "request_percentage"}
    assert {"section": "quotas", "old": row | {"limit": 10}, "new": row | {"limit": 12.5}} in found["changes"]
    assert commands == (
        "kafka-configs --alter --add-config request_percentage=10 --entity-type users --entity-name al\n"
    )
    # Users and owners are not a proposal's.
    lines = proposed.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "SCRAM" in line or "owner" in line] == lines[-3:]
    assert all(line.startswith("# kafka-configs") for line in lines[-3:])
    assert main(["check", "--proposal", str(proposed)]) == 0


async def test_a_cluster_that_changed_since_the_diff_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    path = file(tmp_path, "quotas:\n- {user: x, quota: producer_byte_rate, limit: 1}\n")
    async with cluster.broker:
        await cluster.run("diff", path, "--json")
        state = json.loads(capsys.readouterr().out)["state"]
        cluster.quotas = {((("user", "other"),), "producer_byte_rate"): 1.0}
        assert await cluster.run("apply", path, "--expect-state", state) == 2
        assert "was changed since that diff" in capsys.readouterr().err
        assert len(cluster.quotas) == 1

        cluster.quotas = {}
        assert await cluster.run("apply", path, "--expect-state", state) == 0
    assert len(cluster.quotas) == 1


async def test_after_an_error_nothing_more_is_done_and_each_change_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.acls = {(2, "old", 3, "User:x", "*", 3, 3): None}
    cluster.faults = {ApiKey.CREATE_ACLS: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    text = (
        "acls: [{resource.type: TOPIC, resource.name: t, principal: User:x, operation: READ}]\n"
        "quotas: [{user: x, quota: producer_byte_rate, limit: 1}]\n"
    )
    async with cluster.broker:
        assert await cluster.run("apply", file(tmp_path, text), "--prune") == 1

    said = capsys.readouterr()
    assert said.out == "+ producer_byte_rate of users/x: 1\n1 change made\n"
    assert said.err == (
        "NOT DONE: - ALLOW User:x from * READ TOPIC LITERAL old\n"
        "NOT DONE: + ALLOW User:x from * READ TOPIC LITERAL t\n"
        "penstock apply: ALLOW User:x from * READ TOPIC LITERAL t: CLUSTER_AUTHORIZATION_FAILED\n"
    )


def full_disk() -> TextIO:
    return open("/dev/full", "w", buffering=1, encoding="utf-8")


async def test_what_was_done_is_not_denied_because_it_cannot_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, path = Cluster(), file(tmp_path, "quotas: [{user: x, quota: producer_byte_rate, limit: 1}]\n")
    with full_disk() as full:
        async with cluster.broker:
            monkeypatch.setattr(sys, "stdout", full)
            # 2 would say that nothing was changed.
            assert await cluster.run("apply", path) == 120
        monkeypatch.undo()

    assert len(cluster.quotas) == 1
    said = "penstock apply: not all was printed: standard output: No space left on device\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("key", ["password.env: AL_PASSWORD", "password.file: al.txt"])
async def test_a_password_that_is_not_utf_8_is_found_before_anything_is_changed(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AL_PASSWORD", "pass\udcff")
    (tmp_path / "al.txt").write_bytes(b"pass\xff")
    cluster = Cluster()
    text = (
        "quotas: [{user: al, quota: producer_byte_rate, limit: 1}]\n"
        f"users: [{{name: al, mechanism: SCRAM-SHA-512, {key}}}]\n"
    )
    async with cluster.broker:
        assert await cluster.run("apply", file(tmp_path, text)) == 2

    assert cluster.quotas == {}
    assert capsys.readouterr().err == "penstock apply: user al: the password is not UTF-8\n"


async def test_a_name_that_no_request_can_have_is_a_change_that_was_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    text = (
        "quotas: [{user: al, quota: producer_byte_rate, limit: 1}]\n"
        'owners: [{topic: a, owner: "User:\\uD800"}]\n'
    )
    async with cluster.broker:
        # 2 would say that nothing was changed.
        assert await cluster.run("apply", file(tmp_path, text)) == 1

    assert len(cluster.quotas) == 1
    said = capsys.readouterr()
    assert said.out == "+ producer_byte_rate of users/al: 1\n1 change made\n"
    assert said.err.startswith("NOT DONE: ")


async def test_a_lost_response_is_looked_up_and_changes_of_others_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()

    def made_but_not_told(request: Request) -> Any:
        cluster.quotas[(("user", "other"),), "consumer_byte_rate"] = 7.0
        cluster.alter_quotas(request)
        return b"\x00"  # No response at all: the client cannot read it.

    cluster.broker._answers[ApiKey.ALTER_CLIENT_QUOTAS] = made_but_not_told
    path = file(tmp_path, "quotas: [{user: x, quota: producer_byte_rate, limit: 1}]\n")
    async with cluster.broker:
        assert await cluster.run("apply", path) == 1

    said = capsys.readouterr()
    assert said.out == "+ producer_byte_rate of users/x: 1\n1 change made\n"
    assert "changed by others meanwhile: + consumer_byte_rate of users/other: 7" in said.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("roles: []\n", "roles"),
        ("{}\n", "none of acls, quotas, users, owners"),
        ("quotas: [{quota: producer_byte_rate, limit: 1}]\n", "null is the default"),
        ("quotas: [{user: x, quota: producer_rate, limit: 1}]\n", "expected one of producer_byte_rate"),
        ("users: [{name: x, mechanism: SCRAM-SHA-512, password: secret}]\n", "password"),
        ("users: [{name: x, mechanism: SCRAM-SHA-512}]\n", "user x: no password"),
        ("owners: [{topic: a, owner: x}, {topic: a, owner: y}]\n", "{topic: a, owner: y} twice"),
        (
            "acls: [{resource.type: GROUP, resource.name: g, principal: User:x, operation: WRITE}]\n",
            "no operation on a GROUP",
        ),
        (
            "acls: [{resource.type: CLUSTER, resource.name: g, principal: User:x, operation: ALTER}]\n",
            "no ACL can have this resource",
        ),
        (
            "acls: [{resource.type: TOPIC, resource.name: g, principal: x, operation: READ}]\n",
            "is no principal",
        ),
    ],
)
async def test_what_cannot_be_applied_changes_nothing(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    async with cluster.broker:
        assert await cluster.run("apply", file(tmp_path, text)) == 2
    assert problem in capsys.readouterr().err
    assert not [key for key in cluster.sent() if ApiKey.name_of(key).startswith(("Alter", "Create"))]


async def test_ends_need_a_cluster_that_knows_them_and_those_that_have_passed_are_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(knows_ends=False)
    text = "acls: [{resource.type: TOPIC, resource.name: t, principal: User:x, operation: READ, until: %s}]\n"
    async with cluster.broker:
        assert await cluster.run("apply", file(tmp_path, text % "'2100-01-01T00:00Z'")) == 1
        assert "knows no ACLs with an end" in capsys.readouterr().err
        (tmp_path / "password").write_text("secret", encoding="utf-8")
        (tmp_path / "password").chmod(0o600)
        end = "until: '2100-01-01T00:00Z', password.file: password"
        user = f"users: [{{name: u, mechanism: SCRAM-SHA-256, {end}}}]"
        assert await cluster.run("apply", file(tmp_path, user)) == 1
        assert "knows no credentials with an end" in capsys.readouterr().err
        for past in ("2020-01-01T00:00Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"):
            assert await cluster.run("diff", file(tmp_path, text % f"'{past}'")) == 0
            assert "note: has ended: ALLOW User:x" in capsys.readouterr().err
    assert (cluster.acls, cluster.users) == ({}, {})
