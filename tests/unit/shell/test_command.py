"""The command: what it prints, as text and as JSON, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.metadata.image import MetadataImage
from proxy.metadata.tree import tree_of
from tests.support.images import acl_record, quota_record
from tests.support.log_files import batch, segment
from tests.support.metadata_log import owned

pytestmark = pytest.mark.spec("S10")

RECORDS = [
    acl_record(1, "orders"),
    quota_record("producer_byte_rate", 5.0, user="al/ice"),
    quota_record("producer_byte_rate", 7.0, user="al/ice", client_id=None),
    *owned("orders", "User:olga"),
    *owned("payments", "User:olga", 2),
]
ACL = "AAAAAAAAAAAAAAAAAAAAAQ"
ORDERS: dict[str, Any] = {"id": ACL, "owner": "User:olga", "partitions": None, "configs": {}}


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(segment(tmp_path, batch(0, *RECORDS)))


Said = tuple[int, str, str]


def shell(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    # Without main: its log lines would go to this test's standard error for good.
    code = main(["shell", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["ls"], ["acl", "config", "scram", "status", "token", "topic"]),
        (["ls", "/topic"], ["orders", "payments"]),
        (["ls", "/scram"], []),
        (["ls", "/config/*/al*"], ["clients"]),
        (["ls", "/{acl,topic}"], None),
        (["cat", "/topic/orders"], [json.dumps(ORDERS)]),
        (["cat", "/config/users/al%2Fice/clients/<default>"], ['{"producer_byte_rate": 7.0}']),
        (["find", "/topic"], ["/topic", "/topic/orders", "/topic/payments"]),
        (["find", "/", "or*"], ["/topic/orders"]),
        (["find", "/", "/config/*<default>"], ["/config/users/al%2Fice/clients/<default>"]),
        (["find", "/", "*nobody*"], None),
        (["tree", "/topic"], ["topic", "  orders", "  payments"]),
        (["tree", "/topic/o*"], ["orders"]),
        (["ls", "/topic/orders"], None),
        (["cat", "/topic"], None),
        (["cat", "/topic/nowhere"], None),
    ],
)
def test_a_question_is_answered_by_lines_or_by_exit_code_1(
    capsys: pytest.CaptureFixture[str], log: str, words: list[str], lines: list[str] | None
) -> None:
    code, out, err = shell(capsys, "--log", log, *words)

    if lines is None:
        assert (code, out) == (1, "")
        assert err.startswith("penstock shell: ")
    else:
        assert (code, out.splitlines()) == (0, lines)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ls", "/topic"], {"entries": {"/topic": ["orders", "payments"]}}),
        (["cat", "/topic/o*"], {"values": {"/topic/orders": ORDERS}}),
        (["find", "/topic", "pay*"], {"paths": ["/topic/payments"]}),
        (
            ["tree", "/config/users"],
            {
                "tree": {
                    "/config/users": {
                        "children": {
                            "al%2Fice": {
                                "value": {"producer_byte_rate": 5.0},
                                "children": {
                                    "clients": {
                                        "children": {"<default>": {"value": {"producer_byte_rate": 7.0}}}
                                    }
                                },
                            }
                        }
                    }
                }
            },
        ),
    ],
)
def test_json_says_the_same_and_the_offset(
    capsys: pytest.CaptureFixture[str], log: str, words: list[str], told: dict[str, Any]
) -> None:
    code, out, _ = shell(capsys, "--log", log, "--json", *words)

    assert (code, json.loads(out)) == (0, {"offset": len(RECORDS) - 1} | told)


def test_an_empty_log_has_directories_and_nothing_in_them() -> None:
    root = tree_of(MetadataImage.EMPTY)

    assert root.names() == ["acl", "config", "scram", "status", "token", "topic"]
    assert {name: node.names() for name, node in root.children.items() if name != "status"} == {
        "acl": ["id"],
        "config": [],
        "scram": [],
        "token": [],
        "topic": [],
    }


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["ls"], 2, "--log topic needs --config"),
        (["--log", "kraft", "ls"], 2, "--log kraft needs --config, the configuration file of a proxy"),
        (["-c", "nowhere.yaml", "ls"], 2, "nowhere.yaml"),
        (["--log", "kraft", "--offset", "1", "ls"], 2, "name a file of the log"),
        (["--log", "nowhere.log", "ls"], 3, "nowhere.log: No such file"),
    ],
)
def test_what_is_wrong_is_named_and_ends_with_its_code(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, complaint: str
) -> None:
    ended, out, err = shell(capsys, *words)

    assert (ended, out) == (code, "")
    assert complaint in err


def test_what_a_reader_should_know_of_the_log_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = segment(tmp_path, batch(5, *RECORDS), base_offset=5)

    code, out, err = shell(capsys, "--log", str(path), "ls", "/topic")

    assert (code, out) == (0, "orders\npayments\n")
    assert err == "penstock shell: note: the log begins at offset 5: earlier records are missing\n"


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str], log: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        shell(capsys, "--log", log)

    assert "COMMAND" in capsys.readouterr().err
