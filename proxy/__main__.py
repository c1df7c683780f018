"""The command line: `penstock proxy | controller | check | reload | init | shell | audit`.

Each subcommand is imported only when it is asked for: the proxy starts without Spark, Spark without uvloop.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from proxy.net.runtime import garbage_collector
from proxy.net.runtime.hangup import HANGUP
from proxy.net.telemetry import log_lines, log_settings

EXIT_CONFIG = 2
SPARK = ("pyspark", "delta", "py4j", "jinja2", "markupsafe")
"""What only the extra `spark` installs."""
_INIT = (
    "Writes commented files that penstock check accepts: of a proxy beside its broker, of a controller, or of"
    " both, their users, certificates and passwords in secrets/, a systemd unit, alert rules and a dashboard."
)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the subcommand; 2 for a configuration that cannot be used."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["audit"]:
        return _audit(words[1:])
    if words[:1] in (["proxy"], ["controller"]):
        HANGUP.install()  # Before the imports that take long.
    arguments = command_line().parse_args(words)
    seat = getattr(arguments, "worker", None)
    # Whoever looks at a log wants to see it, and not that we connect.
    serves = arguments.command in ("proxy", "controller")
    level, process = log_settings.read(arguments.config) if serves else ("WARNING", {})
    if seat is not None:
        process["worker"] = json.loads(seat)["number"]
    log_lines.configure(level, process, queued=serves)
    try:
        return int(arguments.run(arguments))
    finally:
        if serves:
            HANGUP.end()


def _audit(words: Sequence[str]) -> int:
    """2 where the extra `spark` is not installed: the message says how to install it."""
    try:
        from spark_audit.__main__ import main as audit

        return audit(words)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SPARK:
            raise
        print(
            f"penstock: this command needs an extra that is not installed ({error}):"
            " pip install 'penstock[spark]'",
            file=sys.stderr,
        )
        return EXIT_CONFIG


def command_line() -> argparse.ArgumentParser:
    """All subcommands but those with a command line of their own."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="A gate in front of Kafka brokers.",
        epilog=f"Documentation: {documentation()}. To begin with: penstock init",
    )
    parser.add_argument("--version", action="version", version=f"penstock {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, text in (
        ("proxy", _proxy, "run a proxy"),
        ("controller", _controller, "run a controller"),
        ("check", _check, "check a configuration file, of a proxy or a controller, and say what is wrong"),
        (
            "reload",
            _reload,
            "have the running process of a configuration file read it again, and report the outcome",
        ),
        ("shell", _shell, "look at the metadata log as a tree of paths"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        many = {"action": "append"} if name == "check" else {}
        required = name not in ("shell", "check")
        command.add_argument("-c", "--config", type=Path, required=required, metavar="FILE", **many)
        command.set_defaults(run=run)
        if name == "proxy":
            command.add_argument("--worker", help=argparse.SUPPRESS)  # A supervisor starts its workers so.
        if name == "reload":
            _reload_arguments(command)
        if name == "shell":
            _shell_arguments(command)
        if name == "check":
            _check_arguments(command)
    _init_arguments(commands.add_parser("init", help="write example files to begin from", description=_INIT))
    commands.add_parser("audit", help="ingest, reconcile and report the audit trail with Spark")
    return parser


def _init_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("kind", nargs="?", choices=("sidecar", "controller", "all"), default="all")
    command.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="where to; default: here")
    command.add_argument(
        "--host", default="localhost", metavar="NAME", help="by which clients reach this machine"
    )
    command.add_argument("--force", action="store_true", help="overwrite files, but no secrets")
    command.set_defaults(run=_init, config=None)


def _check_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = "Several -c: files of one machine, which must not share ports or a spool."
    command.add_argument(
        "--users", type=Path, action="append", metavar="FILE", help="a users file, with or without -c"
    )


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


def _reload_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Exit code 0: in effect; 2: the file cannot be used; 3: some keys need a restart; 1: no outcome."
    )
    command.add_argument(
        "--spool-dir",
        type=Path,
        metavar="DIR",
        help="audit.spool.dir that the process was started with, where the file has another one now",
    )
    command.add_argument(
        "--timeout-ms", type=int, default=60_000, metavar="MS", help="how long to wait for it"
    )


def _proxy(arguments: argparse.Namespace) -> int:
    with garbage_collector.importing():
        from proxy.process import run_proxy

    return run_proxy(arguments.config, arguments.worker)


def _controller(arguments: argparse.Namespace) -> int:
    with garbage_collector.importing():
        from forwarding.__main__ import run_controller

    return run_controller(arguments.config)


def _check(arguments: argparse.Namespace) -> int:
    from proxy.check import checked, checked_users, compared

    configs, users = arguments.config or [], arguments.users or []
    if not configs and not users:
        print("penstock check: name a configuration with -c, or a users file with --users", file=sys.stderr)
        return EXIT_CONFIG
    all_checked = [*map(checked, configs), *map(checked_users, users)]
    problems = [problem for each in all_checked for problem in each.problems] + compared(all_checked)
    for problem in problems:
        print(problem, file=sys.stderr)
    for warning in (warning for each in all_checked for warning in each.warnings):
        print(f"warning: {warning}", file=sys.stderr)
    if not problems:
        for each in all_checked:
            print(f"{each.path}: ok")
    return EXIT_CONFIG if problems else 0


def _init(arguments: argparse.Namespace) -> int:
    from proxy.starter import InitError, Wanted, write_examples

    wanted = Wanted(arguments.dir, arguments.kind, arguments.host, arguments.force)
    try:
        written = write_examples(wanted)
    except InitError as error:
        print(f"penstock init: {error}", file=sys.stderr)
        return EXIT_CONFIG
    for path in written:
        print(f"written: {path}")
    files = [str(arguments.dir / f"{name}.yaml") for name in wanted.processes]
    print(f"Edit what is marked with CHANGE, then: penstock check -c {' -c '.join(files)}")
    print(f"Documentation: {documentation()}")
    return 0


def documentation() -> str:
    """Where the pages are: installed beside us, or in the checkout that we run from."""
    places = Path(sys.prefix) / "share" / "doc" / "penstock", Path(__file__).resolve().parent.parent
    return next((str(place) for place in places if (place / "docs").is_dir()), "docs/ of the source")


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "(not installed)"


def _reload(arguments: argparse.Namespace) -> int:
    from proxy.reload import reload

    return reload(arguments.config, arguments.spool_dir, arguments.timeout_ms)


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
