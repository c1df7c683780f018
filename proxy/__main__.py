"""`penstock COMMAND`: one function for each command that proxy.commands.arguments knows.

Each subcommand is imported only when it runs: the proxy starts without Spark, Spark without uvloop.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.commands.arguments import command_line, configured, documentation
from proxy.commands.output import EXIT_INTERRUPTED, printed
from proxy.net.runtime import garbage_collector
from proxy.net.runtime.operator_signals import HANGUP, RESTART
from proxy.net.telemetry import log_lines

if TYPE_CHECKING:
    from proxy.commands.check import Checked, Config
    from proxy.commands.proposal_check import CheckedProposal

EXIT_CONFIG = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand and return its exit code; 2 for an invalid configuration."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else ""
    if name in ("proxy", "controller"):
        return _serve(words)
    return printed(name, lambda: _print(words))


def _print(words: list[str]) -> int:
    """Run a command that prints results: its log lines would be noise."""
    if words[:1] == ["audit"]:
        return _audit(words[1:])
    if words[:1] == ["acl"]:
        return _acl(words[1:])
    arguments = command_line().parse_args(words)
    log_lines.configure("WARNING")
    return _RUN[arguments.command](arguments)


def _serve(words: list[str]) -> int:
    HANGUP.install()  # Before the imports that take long.
    RESTART.install()
    try:
        arguments = command_line().parse_args(words)
        seat = getattr(arguments, "worker", None)
        with garbage_collector.importing():
            from proxy.config.reading import values_in
        lines = log_lines.read_settings(values_in(arguments.config))
        if seat is not None:
            lines.process["worker"] = json.loads(seat)["number"]
        log_lines.configure(**lines._asdict(), queued=True)
        return _RUN[arguments.command](arguments)
    except KeyboardInterrupt:  # Before it handles SIGINT itself.
        return EXIT_INTERRUPTED
    finally:
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
    default = configured()
    if arguments.config or arguments.users or arguments.proposal is not None or default is None:
        return arguments.config or []
    return [default]


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
    if arguments.listener is not None and not (arguments.token or arguments.certificate):
        return "--listener goes with --token or --certificate"
    if arguments.questions is not None and arguments.proposal is None:
        return "--questions goes with --proposal"
    if arguments.log is not None and not (arguments.proposal or arguments.token or arguments.certificate):
        return "--log goes with --proposal, --token or --certificate"
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


_RUN: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "proxy": _proxy,
    "controller": _controller,
    "check": _check,
    "reload": _reload,
    "restart": _restart,
    "connections": _connections,
    "quotas": _quotas,
    "disconnect": _disconnect,
    "shell": _shell,
    "init": _init,
    "hash-password": _hash_password,
    "completion": _completion,
    "policy": _policy,
    "export": _rights,
    "diff": _rights,
    "apply": _rights,
}


if __name__ == "__main__":
    sys.exit(main())
