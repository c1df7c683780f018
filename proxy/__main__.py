"""The command line: `penstock proxy | controller | check | shell | audit | demo`.

Each subcommand is imported only when it is asked for: the proxy starts without Spark, Spark without uvloop.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from proxy.net import log_lines

EXIT_CONFIG = 2


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the subcommand; 2 for a configuration that cannot be used."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["audit"]:
        from spark_audit.__main__ import main as audit

        return audit(words[1:])
    if words[:1] == ["demo"]:
        from proxy.demo.__main__ import main as demo

        return demo(words[1:])
    arguments = command_line().parse_args(words)
    seat = getattr(arguments, "worker", None)
    # Whoever looks at a log wants to see it, and not that we connect.
    level = "WARNING" if arguments.command == "shell" else _level(arguments.config)
    serves = arguments.command in ("proxy", "controller")
    log_lines.configure(level, None if seat is None else json.loads(seat)["number"], queued=serves)
    return int(arguments.run(arguments))


def command_line() -> argparse.ArgumentParser:
    """All subcommands but those with a command line of their own."""
    parser = argparse.ArgumentParser(prog="penstock", description="A gate in front of Kafka brokers.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, text in (
        ("proxy", _proxy, "run a proxy"),
        ("controller", _controller, "run a controller"),
        ("check", _check, "check a configuration file, of a proxy or a controller, and say what is wrong"),
        ("shell", _shell, "look at the metadata log as a tree of paths"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("-c", "--config", type=Path, required=name != "shell", metavar="FILE")
        command.set_defaults(run=run)
        if name == "proxy":
            command.add_argument("--worker", help=argparse.SUPPRESS)  # A supervisor starts its workers so.
        if name == "shell":
            _shell_arguments(command)
    commands.add_parser("audit", help="ingest, reconcile and report the audit trail with Spark")
    commands.add_parser("demo", help="play the main job on a real broker on this machine")
    return parser


def _shell_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Without a command it asks for them. Exit code 1: nothing there, 3: the log cannot be read."
    )
    command.add_argument(
        "--log", default="topic", metavar="topic|kraft|PATH", help="which log; PATH is a file or a directory"
    )
    command.add_argument("--offset", type=int, metavar="N", help="as of this offset, not of the log's end")
    command.add_argument("--json", action="store_true", help="answer with one JSON object")
    command.add_argument("action", nargs="?", choices=("ls", "cat", "find", "tree"), metavar="COMMAND")
    command.add_argument("path", nargs="?", default="/")
    command.add_argument("pattern", nargs="?", help="of find: a name, or a whole path, with * ? [...]")


def _level(config_path: Path) -> str:
    """log.level of the file, whatever else is wrong with it."""
    import yaml

    try:
        document = yaml.safe_load(config_path.read_text(encoding="utf-8"))
        level = document["log"]["level"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return "INFO"
    return level if level in ("DEBUG", "INFO", "WARNING", "ERROR") else "INFO"


def _proxy(arguments: argparse.Namespace) -> int:
    from proxy.process import run_proxy

    return run_proxy(arguments.config, arguments.worker)


def _controller(arguments: argparse.Namespace) -> int:
    from forwarding.__main__ import run_controller

    return run_controller(arguments.config)


def _check(arguments: argparse.Namespace) -> int:
    from proxy.check import check, warnings

    problems = check(arguments.config)
    for problem in problems:
        print(problem, file=sys.stderr)
    for warning in warnings(arguments.config):
        print(f"warning: {warning}", file=sys.stderr)
    if not problems:
        print(f"{arguments.config}: ok")
    return EXIT_CONFIG if problems else 0


def _shell(arguments: argparse.Namespace) -> int:
    from proxy.shell.run import Question, run_shell

    question = Question(
        log=arguments.log,
        config=arguments.config,
        offset=arguments.offset,
        command=arguments.action,
        path=arguments.path,
        pattern=arguments.pattern,
        as_json=arguments.json,
    )
    return run_shell(question)


if __name__ == "__main__":
    sys.exit(main())
