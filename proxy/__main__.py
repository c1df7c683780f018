"""The command line: `penstock COMMAND`, with one function for each command.

Each subcommand is imported only when it runs: the proxy starts without Spark, Spark without uvloop.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.net.runtime import garbage_collector
from proxy.net.runtime.operator_signals import HANGUP, RESTART
from proxy.net.telemetry import log_lines

if TYPE_CHECKING:
    from proxy.commands.check import Checked, Config
    from proxy.commands.proposal_check import CheckedProposal

EXIT_CONFIG = 2
CONFIG_VARIABLE = "PENSTOCK_CONFIG"
_INIT = (
    "Write commented example files for a proxy beside its broker, a controller, or both: configurations that"
    " penstock check accepts, users, certificates and passwords in secrets/, systemd units, alert rules and"
    " a dashboard."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand and return its exit code; 2 for an invalid configuration."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["audit"]:
        return _audit(words[1:])
    if words[:1] == ["acl"]:
        return _acl(words[1:])
    if words[:1] in (["proxy"], ["controller"]):
        HANGUP.install()  # Before the imports that take long.
        RESTART.install()
    arguments = command_line().parse_args(words)
    seat = getattr(arguments, "worker", None)
    # The other commands print results: their log lines would be noise.
    serves = arguments.command in ("proxy", "controller")
    if serves:
        lines = log_lines.read_settings(arguments.config)
        if seat is not None:
            lines.process["worker"] = json.loads(seat)["number"]
        log_lines.configure(**lines._asdict(), queued=True)
    else:
        log_lines.configure("WARNING")
    try:
        return int(arguments.run(arguments))
    finally:
        if serves:
            HANGUP.end()
            RESTART.end()


def _audit(words: Sequence[str]) -> int:
    """Return 2 if the extra `spark` is not installed; the message says how to install it."""
    try:
        from spark_audit.__main__ import main as audit

        return audit(words)
    except ImportError as error:
        print(
            f"penstock: this command needs an extra that is not installed ({error});"
            " run pip install '.[spark]' in a checkout",
            file=sys.stderr,
        )
        return EXIT_CONFIG


def _acl(words: Sequence[str]) -> int:
    from proxy.commands.acl import run_acl

    log_lines.configure("WARNING", {}, queued=False)
    return run_acl(words)


def command_line(jobs: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    """The parser for all subcommands. acl and audit read their words themselves; `jobs`: that of audit."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="A Kafka-aware proxy in front of each broker, its controller and its audit jobs.",
        epilog=f"Start with penstock init. The documentation is in {documentation()}.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, text in (
        ("proxy", _proxy, "run a proxy"),
        ("controller", _controller, "run a controller"),
        ("check", _check, "check the configuration file of a proxy or a controller and print all errors"),
        (
            "reload",
            _reload,
            "reload the configuration of a running proxy or controller and print the outcome",
        ),
        (
            "restart",
            _restart,
            "replace a running proxy by a new process and print the outcome; connections wait meanwhile",
        ),
        ("connections", _connections, "show who is connected to a running proxy, from where, with what"),
        ("quotas", _quotas, "show the quotas in use at a running proxy, and who is throttled"),
        ("disconnect", _disconnect, "end a connection to a running proxy, or all of a principal"),
        ("shell", _shell, "show the metadata log as a tree of paths"),
    ):
        of_page = "Exit code 0: success; 1: no response, or not of all workers; 2: invalid arguments."
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=of_page if name in ("connections", "quotas") else None,
        )
        many = {"action": "append"} if name == "check" else {}
        of = "a configuration file; repeatable" if name == "check" else "the configuration file"
        configured = _configured()
        command.add_argument(
            *("-c", "--config"),
            type=Path,
            required=configured is None and name not in ("shell", "check"),
            default=None if name in ("shell", "check") else configured,
            metavar="FILE",
            help=of if name == "shell" else f"{of}; default: ${CONFIG_VARIABLE}",
            **many,
        )
        command.set_defaults(run=run)
        if name == "proxy":
            command.add_argument("--worker", help=argparse.SUPPRESS)  # For workers that a supervisor starts.
        if name in ("check", "reload", "restart", "quotas"):
            command.add_argument("--json", action="store_true", help="print one JSON object")
        if name in ("reload", "restart"):
            _signal_arguments(command, name)
        if name == "connections":
            _connections_arguments(command)
        if name == "disconnect":
            _disconnect_arguments(command)
        if name == "shell":
            _shell_arguments(command)
        if name == "check":
            _check_arguments(command)
    _init_arguments(commands.add_parser("init", help="write example files", description=_INIT))
    _hash_arguments(
        commands.add_parser(
            "hash-password",
            help="print the hash of a password, for a users file",
            description="Print the hash of a PLAIN user's password, as a line of a users file. On a terminal"
            " the command prompts for the password twice; otherwise it reads one line of standard input.",
        )
    )
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description="Print a script that completes commands and options in a shell; those of penstock audit"
        " are among them if the extra spark is installed.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run=_completion)
    _policy_arguments(
        commands.add_parser("policy", help="prove what ACLs allow, and what a change of them changes")
    )
    _rights_arguments(commands)
    commands.add_parser("acl", help="add, remove and list ACLs as kafka-acls does, also ACLs with an end")
    text = "run the Spark jobs: ingest, reconcile and report the audit trail"
    if jobs is None:
        commands.add_parser("audit", help=text)
    else:
        commands.add_parser("audit", help=text, parents=[jobs], add_help=False)
    return parser


def _configured() -> Path | None:
    """The file that the environment names."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def _init_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "kind", nargs="?", choices=("sidecar", "controller", "all"), default="all", help="default: all"
    )
    command.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="directory for the files; default: the current one",
    )
    command.add_argument(
        "--host",
        default="localhost",
        metavar="NAME",
        help="name or address of this machine for clients; default: localhost",
    )
    command.add_argument("--force", action="store_true", help="overwrite existing files, but never secrets")
    command.set_defaults(run=_init, config=None)


def _hash_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "name", nargs="?", metavar="USER", help="a user: print the whole line, not only what follows the name"
    )
    command.epilog = "Exit code 0: success; 2: no password, or two different ones."
    command.set_defaults(run=_hash_password, config=None)


def _check_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Several files are checked as those of one machine: they must not share ports, spools or names."
        " Exit code 0: no errors; 2: errors."
    )
    command.add_argument(
        "--users", type=Path, action="append", metavar="FILE", help="a users file; repeatable"
    )
    command.add_argument(
        "--connect",
        action="store_true",
        help="also connect to all brokers, controllers and identity providers of the files, for 10 s at most:"
        " TLS, login, versions and rights; nothing is changed there",
    )
    command.add_argument(
        "--proposal",
        type=Path,
        metavar="FILE",
        help="kafka-acls and kafka-configs commands and settings to check, not to run; compared with the"
        " metadata log if -c or --log names one",
    )
    for kind, content in (("token", "a token (JWT)"), ("certificate", "a client's certificate, PEM or DER")):
        command.add_argument(
            f"--{kind}",
            type=Path,
            metavar="FILE",
            help=f"{content}, or - for standard input: print whether a listener of -c accepts it, principal,"
            " groups, when the session ends, and with --connect or --log the ACLs",
        )
    command.add_argument("--listener", metavar="NAME", help="the listener for --token or --certificate")
    command.add_argument("--log", metavar="topic|kraft|PATH", help="the log, as for penstock shell")
    command.add_argument(
        "--questions",
        type=Path,
        metavar="FILE",
        help="lines PRINCIPAL HOST OPERATION RESOURCE-TYPE NAME: print what the proposal changes for each",
    )


def _shell_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Exit code 0: success; 1: nothing found; 2: invalid arguments; 3: the log cannot be read."
    )
    command.add_argument(
        "--log",
        default="topic",
        metavar="topic|kraft|PATH",
        help="the log to read: the metadata topic (default), Kafka's quorum log, or a file or directory",
    )
    command.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help="show the state as of this offset; default: the end of the log",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--unsigned", action="store_true", help="show records too that no controller has signed"
    )
    command.add_argument(
        "action",
        choices=("ls", "cat", "find", "tree"),
        metavar="COMMAND",
        help="ls, cat, find or tree",
    )
    command.add_argument("path", nargs="?", default="/", help="a path; may contain * ? [...]; default: /")
    command.add_argument("pattern", nargs="?", help="for find: a name or a whole path; may contain * ? [...]")


def _connections_arguments(command: argparse.ArgumentParser) -> None:
    for name, of in (
        ("principal", "of this principal: User:alice"),
        ("listener", "at this listener"),
        ("client-software", "of this software: a name, or a name and a version in quotes"),
        ("address", "from this address or network: 10.0.3.0/24"),
        ("api-version", "that have used an API in a version or versions: Fetch:4 or Fetch:0-3"),
    ):
        command.add_argument(f"--{name}", metavar=name.upper(), help=f"only connections {of}")
    command.add_argument("--json", action="store_true", help="print one JSON object a line")


def _disconnect_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "The client may connect again: revoke its credential first. Exit code 0: they have ended; 1: no"
        " response, or not of all workers; 2: invalid arguments or token."
    )
    whom = command.add_mutually_exclusive_group(required=True)
    whom.add_argument("--principal", metavar="PRINCIPAL", help="all connections of it: User:alice")
    whom.add_argument("--connection", metavar="ID", help="the connection, as penstock connections shows it")
    command.add_argument("--why", required=True, metavar="REASON", help="the reason, for the audit trail")
    command.add_argument(
        "--as",
        dest="administrator",
        metavar="NAME",
        help="whose token of http.admin.tokens.file to send; default: the only one",
    )


def _policy_arguments(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Prove what ACLs allow, and what a change of them changes, for all requests there can be."
    )
    subcommands = command.add_subparsers(dest="policy_command", required=True, metavar="COMMAND")
    source = (
        "live (with --bootstrap-server), topic or kraft (with -c; topic@N: as of offset N), a file or"
        " directory of a metadata log, the output of kafka-acls --list, a file of rights, an ACL"
        " file, or a proposal"
    )
    diff = subcommands.add_parser("diff", help="print all requests that two policies decide differently")
    diff.add_argument("old", metavar="OLD", help=source)
    diff.add_argument("new", metavar="NEW", help="the same; a proposal changes OLD")
    diff.epilog = "Exit code 0: no difference; 1: differences; 2: a policy cannot be read."
    prove = subcommands.add_parser(
        "assert", help="prove assertions about a policy, or print a counterexample"
    )
    prove.add_argument("file", type=Path, metavar="FILE", help="assertions, one a line")
    prove.add_argument("policy", metavar="POLICY", help=source)
    prove.epilog = "Exit code 0: all are proved; 1: some do not hold; 2: a file cannot be read."
    useless = subcommands.add_parser(
        "useless", help="print ACLs without which every request is decided as before"
    )
    useless.add_argument("policy", metavar="POLICY", help=source)
    useless.epilog = "Exit code 0: there is none; 1: there are some; 2: the policy cannot be read."
    for each in (diff, prove, useless):
        each.add_argument(
            "-c", "--config", type=Path, metavar="FILE", help="a proxy's or controller's configuration file"
        )
        _cluster_arguments(each, required=False)
        each.add_argument("--super-users", metavar="A;B", help="in place of the configuration's super.users")
        each.add_argument(
            "--allow-everyone",
            choices=("true", "false"),
            help="in place of the configuration's allow.everyone.if.no.acl.found",
        )
        each.add_argument("--json", action="store_true", help="print one JSON object")
        each.set_defaults(run=_policy)


def _rights_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    rights = "ACLs, quotas, SCRAM users and owners of topics"
    for name, text, codes in (
        ("export", f"print {rights} of a cluster as one YAML file", "0: success; 2: error"),
        (
            "diff",
            f"print what apply would change of {rights}",
            "0: nothing would change; 1: something would; 2: error",
        ),
        (
            "apply",
            f"make {rights} of a cluster as a file says",
            "0: all is as the file says; 1: not all was done, and standard error names what; 2: error, and"
            " nothing was changed",
        ),
    ):
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.epilog = f"Exit code {codes}."
        _cluster_arguments(command, required=True)
        command.set_defaults(run=_rights, config=None)
        if name == "export":
            command.add_argument(
                "--as",
                dest="form",
                choices=("yaml", "commands"),
                default="yaml",
                help="commands: kafka-acls, penstock acl and kafka-configs commands",
            )
            command.add_argument(
                "--only",
                action="append",
                choices=("acls", "quotas", "users", "owners"),
                help="only this section; repeatable",
            )
            continue
        command.add_argument("file", type=Path, metavar="FILE", help="the file, as penstock export prints it")
        command.add_argument(
            "--prune", action="store_true", help="delete what is not in the sections of the file"
        )
        command.add_argument(
            "--proposal",
            type=Path,
            metavar="FILE",
            help="write the changes there, for penstock check --proposal, policy diff and audit what-if",
        )
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if name == "apply":
            command.add_argument("--dry-run", action="store_true", help="print the changes, and make none")
            command.add_argument(
                "--expect-state",
                metavar="STATE",
                help="change nothing unless the cluster is as penstock diff has found it",
            )


def _cluster_arguments(command: argparse.ArgumentParser, *, required: bool) -> None:
    command.add_argument(
        "--bootstrap-server",
        required=required,
        metavar="HOST:PORT,...",
        help="the cluster: a proxy's address",
    )
    command.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a .properties file of a Kafka client: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, and TLS with PEM"
        " files",
    )


def _signal_arguments(command: argparse.ArgumentParser, name: str) -> None:
    timeout_ms = 60_000
    command.epilog = (
        "Exit code 0: the whole file is in effect; 1: no outcome; 2: the file is invalid; 3: some keys need a"
        " restart."
    )
    if name == "restart":
        timeout_ms = 180_000
        command.epilog = (
            "Exit code 0: the new process serves; 1: no outcome; 2: the new process could not start, and the"
            " running one serves on."
        )
    command.add_argument(
        "--spool-dir",
        type=Path,
        metavar="DIR",
        help="audit.spool.dir of the running process, if it differs from the one in the file",
    )
    command.add_argument(
        "--timeout-ms",
        type=int,
        default=timeout_ms,
        metavar="MS",
        help=f"how long to wait for the outcome; default: {timeout_ms}",
    )


def _proxy(arguments: argparse.Namespace) -> int:
    with garbage_collector.importing():
        from proxy.commands.run_proxy import run_proxy

    return run_proxy(arguments.config, arguments.worker)


def _controller(arguments: argparse.Namespace) -> int:
    with garbage_collector.importing():
        from forwarding.app import run_controller
        from proxy.commands.check import check

    return run_controller(arguments.config, check)


def _completion(arguments: argparse.Namespace) -> int:
    import shtab

    jobs = None
    with suppress(ModuleNotFoundError):
        from spark_audit.__main__ import parser

        jobs = parser()
    print(shtab.complete(command_line(jobs), shell=arguments.shell))
    return 0


def _configs_to_check(arguments: argparse.Namespace) -> list[Path]:
    """The files that are named or, if nothing is, that of the environment."""
    configured = _configured()
    if arguments.config or arguments.users or arguments.proposal is not None or configured is None:
        return arguments.config or []
    return [configured]


def _check(arguments: argparse.Namespace) -> int:
    from proxy.commands.check import checked, checked_users, compared

    arguments.config = _configs_to_check(arguments)
    configs, users = arguments.config, arguments.users or []
    missing = _missing_words(arguments)
    if missing is not None:
        print(f"penstock check: {missing}", file=sys.stderr)
        return EXIT_CONFIG
    all_checked = [*map(checked, configs), *map(checked_users, users)]
    problems = [problem for each in all_checked for problem in (*each.problems, *each.unusable)]
    problems += compared(all_checked)
    warnings = [warning for each in all_checked for warning in each.warnings]
    notes = [note for each in all_checked for note in each.notes]
    lines = [f"{each.path}: ok" for each in all_checked]
    shown = []  # Also beside errors: what works narrows them down.
    if arguments.connect:
        from proxy.commands.connection_check import check_connections

        usable = [each for each in all_checked if each.config is not None and not each.problems]
        found = check_connections((each.path, each.config) for each in usable if each.config is not None)
        problems += found.problems
        warnings += found.warnings
        notes += [
            f"{each.path}: not connected, because of its errors" for each in all_checked if each not in usable
        ]
        shown += found.lines
    if arguments.proposal is not None and not problems:
        proposed = _check_proposal(arguments, all_checked[0].config if configs else None)
        problems, warnings = proposed.problems, warnings + proposed.warnings
        lines += [f"{arguments.proposal}: ok", *proposed.lines]
    of_credentials, reasons = _check_credentials(arguments, all_checked[:1])
    problems += reasons
    shown += of_credentials + ([] if problems else lines)
    if arguments.json:
        found_all = {"ok": not problems, "errors": problems, "warnings": warnings, "notes": notes}
        print(json.dumps(found_all | {"results": shown}, indent=2))
        return EXIT_CONFIG if problems else 0
    for problem in problems:
        print(problem, file=sys.stderr)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    for line in shown:
        print(line)
    return EXIT_CONFIG if problems else 0


def _missing_words(arguments: argparse.Namespace) -> str | None:
    """Return what the command line lacks; None if nothing."""
    if not arguments.config and not arguments.users and arguments.proposal is None:
        return "name a configuration file with -c, a users file with --users or a proposal with --proposal"
    if (arguments.token or arguments.certificate) and len(arguments.config or ()) != 1:
        return "--token and --certificate need one configuration file; name it with -c"
    if arguments.connect and not arguments.config:
        return "--connect needs a configuration file; name one with -c"
    return None


def _check_credentials(
    arguments: argparse.Namespace, all_checked: "Sequence[Checked]"
) -> tuple[list[str], list[str]]:
    """Return what a listener makes of the credentials, and each reason why one is invalid."""
    from proxy.commands.credential_check import check_credential, log_of
    from proxy.net.runtime.clock import now_ms

    lines, problems = [], []
    for kind in ("token", "certificate"):
        path = getattr(arguments, kind)
        config = all_checked[0].config if path is not None and not all_checked[0].problems else None
        if config is not None:
            log = arguments.log or (log_of(config) if arguments.connect else None)
            found = check_credential(config, kind, path, arguments.listener, now_ms())
            found.add_rights(config.authorizer, log, arguments.config[0])
            lines += found.lines
            problems += [f"{path}: {reason}" for reason in found.reasons]
    return lines, problems


def _check_proposal(arguments: argparse.Namespace, config: "Config | None") -> "CheckedProposal":
    from proxy.commands.proposal_check import check_proposal

    path = arguments.config[0] if arguments.config else None
    settings = {} if config is None else config.authorizer.settings()
    log = arguments.log or ("topic" if path else None)
    # Without the setting, each class has its own default.
    known = {name: value for name, value in settings.items() if value}
    return check_proposal(arguments.proposal, log, path, known, arguments.questions)


def _policy(arguments: argparse.Namespace) -> int:
    from proxy.commands.check import checked
    from proxy.commands.policy.run import run_policy

    settings: dict[str, str] = {}
    if arguments.config is not None:
        found = checked(arguments.config)
        if found.config is None:
            print("\n".join(found.problems), file=sys.stderr)
            return EXIT_CONFIG
        settings = found.config.authorizer.settings()
    settings |= {"super.users": arguments.super_users} if arguments.super_users is not None else {}
    settings |= (
        {"allow.everyone.if.no.acl.found": arguments.allow_everyone} if arguments.allow_everyone else {}
    )
    # Without the setting, each class has its own default.
    outcome = run_policy(arguments, {name: value for name, value in settings.items() if value})
    for line in (*outcome.problems, *(f"note: {note}" for note in outcome.notes)):
        print(line, file=sys.stderr)
    for line in outcome.lines:
        print(line)
    return outcome.exit_code


def _rights(arguments: argparse.Namespace) -> int:
    from proxy.commands.rights.run import run_rights

    return run_rights(arguments)


def _init(arguments: argparse.Namespace) -> int:
    from proxy.commands.init import InitError, Wanted, write_examples

    wanted = Wanted(arguments.dir, arguments.kind, arguments.host, arguments.force)
    try:
        written = write_examples(wanted)
    except InitError as error:
        print(f"penstock init: {error}", file=sys.stderr)
        return EXIT_CONFIG
    for path in written:
        print(f"written: {path}")
    files = [str(arguments.dir / f"{name}.yaml") for name in wanted.processes]
    print(f"Edit the lines marked with CHANGE, then run: penstock check -c {' -c '.join(files)}")
    print(f"The documentation is in {documentation()}")
    return 0


def _hash_password(arguments: argparse.Namespace) -> int:
    from proxy.commands.hash_password import NoPassword, line_of, password_of

    try:
        print(line_of(arguments.name, password_of(sys.stdin)))
    except NoPassword as error:
        print(f"penstock hash-password: {error}", file=sys.stderr)
        return EXIT_CONFIG
    return 0


def documentation() -> str:
    """Where the documentation is: in the installation, or in the checkout."""
    places = Path(sys.prefix) / "share" / "doc" / "penstock", Path(__file__).resolve().parent.parent
    return next((str(place) for place in places if (place / "docs").is_dir()), "docs/ of the source")


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "(not installed)"


def _reload(arguments: argparse.Namespace) -> int:
    from proxy.commands.reload_and_restart import reload

    return reload(arguments.config, arguments.spool_dir, arguments.timeout_ms, as_json=arguments.json)


def _restart(arguments: argparse.Namespace) -> int:
    from proxy.commands.reload_and_restart import restart

    return restart(arguments.config, arguments.spool_dir, arguments.timeout_ms, as_json=arguments.json)


def _connections(arguments: argparse.Namespace) -> int:
    from proxy.commands.running import FILTERS, show_connections

    given = {name: value for name in FILTERS if (value := getattr(arguments, name)) is not None}
    return show_connections(arguments.config, given, as_json=arguments.json)


def _quotas(arguments: argparse.Namespace) -> int:
    from proxy.commands.running import show_quotas

    return show_quotas(arguments.config, as_json=arguments.json)


def _disconnect(arguments: argparse.Namespace) -> int:
    from proxy.commands.running import disconnect

    whom = {"principal": arguments.principal, "connection_id": arguments.connection}
    wanted = {name: value for name, value in whom.items() if value is not None} | {"why": arguments.why}
    return disconnect(arguments.config, wanted, arguments.administrator)


def _shell(arguments: argparse.Namespace) -> int:
    from proxy.commands.shell.run import run_shell

    return run_shell(arguments)


if __name__ == "__main__":
    sys.exit(main())
