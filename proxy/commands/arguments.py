"""The subcommands of `penstock` and their arguments; proxy.__main__ runs them."""

import argparse
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CONFIG_VARIABLE = "PENSTOCK_CONFIG"
_OF_PAGES = "Exit code 0: success; 1: no response, or not of all workers; 2: invalid arguments."


def command_line(jobs: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    """Return the parser. acl and audit read their words themselves; `jobs`: the parser of audit."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="A Kafka-aware proxy in front of each broker, its controller and its audit jobs.",
        epilog=f"Start with penstock init. The documentation is in {documentation()}.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    proxy = _command(commands, "proxy", "run a proxy")
    _config_argument(proxy)
    proxy.add_argument("--worker", help=argparse.SUPPRESS)  # For workers that a supervisor starts.
    _config_argument(_command(commands, "controller", "run a controller"))
    _check_arguments(
        _command(
            commands, "check", "check the configuration file of a proxy or a controller and print all errors"
        )
    )
    _reload_arguments(
        _command(
            commands,
            "reload",
            "reload the configuration of a running proxy or controller and print the outcome",
        )
    )
    _restart_arguments(
        _command(
            commands,
            "restart",
            "replace a running proxy by a new process and print the outcome; connections wait meanwhile",
        )
    )
    _connections_arguments(
        _command(commands, "connections", "show who is connected to a running proxy, from where, with what")
    )
    quotas = _command(commands, "quotas", "show the quotas in use at a running proxy, and who is throttled")
    _config_argument(quotas)
    quotas.add_argument("--json", action="store_true", help="print one JSON object")
    quotas.epilog = _OF_PAGES
    _disconnect_arguments(
        _command(commands, "disconnect", "end a connection to a running proxy, or all of a principal")
    )
    _shell_arguments(_command(commands, "shell", "show the metadata log as a tree of paths"))
    _init_arguments(_command(commands, "init", "write example files"))
    _hash_arguments(_command(commands, "hash-password", "print the hash of a password, for a users file"))
    completion = _command(
        commands, "completion", "print a script that completes commands and options in a shell"
    )
    completion.description = (
        "Print a script that completes commands and options in a shell; those of penstock audit"
        " are among them if the extra spark is installed."
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    _policy_arguments(
        _command(commands, "policy", "prove what ACLs allow, and what a change of them changes")
    )
    _rights_arguments(commands)
    commands.add_parser("acl", help="add, remove and list ACLs as kafka-acls does, also ACLs with an end")
    text = "run the Spark jobs: ingest, reconcile and report the audit trail"
    if jobs is None:
        commands.add_parser("audit", help=text)
    else:
        commands.add_parser("audit", help=text, parents=[jobs], add_help=False)
    return parser


def configured() -> Path | None:
    """Return the configuration file that the environment names."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def documentation() -> str:
    """Return where the documentation is: in the installation, or in the checkout."""
    places = Path(sys.prefix) / "share" / "doc" / "penstock", Path(__file__).resolve().parents[2]
    return next((str(place) for place in places if (place / "docs").is_dir()), "docs/ of the source")


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "(not installed)"


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")


def _config_argument(command: argparse.ArgumentParser) -> None:
    default = configured()
    command.add_argument(
        *("-c", "--config"),
        type=Path,
        required=default is None,
        default=default,
        metavar="FILE",
        help=f"the configuration file; default: ${CONFIG_VARIABLE}",
    )


def _init_arguments(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write commented example files for a proxy beside its broker, a controller, or both: configurations"
        " that penstock check accepts, users, certificates and passwords in secrets/, systemd units, alert"
        " rules and a dashboard."
    )
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


def _hash_arguments(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the hash of a PLAIN user's password, as a line of a users file. On a terminal"
        " the command prompts for the password twice; otherwise it reads one line of standard input."
    )
    command.add_argument(
        "name", nargs="?", metavar="USER", help="a user: print the whole line, not only what follows the name"
    )
    command.epilog = "Exit code 0: success; 2: no password, or two different ones."


def _check_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Several files are checked as those of one machine: they must not share ports, spools or names."
        " Exit code 0: no errors; 2: errors."
    )
    command.add_argument(
        *("-c", "--config"),
        type=Path,
        action="append",
        metavar="FILE",
        help=f"a configuration file; repeatable; default: ${CONFIG_VARIABLE}",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
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
    command.add_argument("-c", "--config", type=Path, metavar="FILE", help="the configuration file")
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
    command.epilog = _OF_PAGES
    _config_argument(command)
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
    _config_argument(command)
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


def _rights_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    rights = "ACLs, quotas, SCRAM users and owners of topics"
    export = _command(commands, "export", f"print {rights} of a cluster as one YAML file")
    export.epilog = "Exit code 0: success; 2: error."
    _cluster_arguments(export, required=True)
    export.add_argument(
        "--as",
        dest="form",
        choices=("yaml", "commands"),
        default="yaml",
        help="commands: kafka-acls, penstock acl and kafka-configs commands",
    )
    export.add_argument(
        "--only",
        action="append",
        choices=("acls", "quotas", "users", "owners"),
        help="only this section; repeatable",
    )
    diff = _command(commands, "diff", f"print what apply would change of {rights}")
    diff.epilog = "Exit code 0: nothing would change; 1: something would; 2: error."
    _file_of_rights_arguments(diff)
    apply = _command(commands, "apply", f"make {rights} of a cluster as a file says")
    apply.epilog = (
        "Exit code 0: all is as the file says; 1: not all was done, and standard error names what; 2: error,"
        " and nothing was changed."
    )
    _file_of_rights_arguments(apply)
    apply.add_argument("--dry-run", action="store_true", help="print the changes, and make none")
    apply.add_argument(
        "--expect-state",
        metavar="STATE",
        help="change nothing unless the cluster is as penstock diff has found it",
    )


def _file_of_rights_arguments(command: argparse.ArgumentParser) -> None:
    _cluster_arguments(command, required=True)
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


def _reload_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Exit code 0: the whole file is in effect; 1: no outcome; 2: the file is invalid; 3: some keys need a"
        " restart."
    )
    _signal_arguments(command, 60_000)


def _restart_arguments(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Exit code 0: the new process serves; 1: no outcome; 2: the new process could not start, and the"
        " running one serves on."
    )
    _signal_arguments(command, 180_000)


def _signal_arguments(command: argparse.ArgumentParser, timeout_ms: int) -> None:
    _config_argument(command)
    command.add_argument("--json", action="store_true", help="print one JSON object")
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
