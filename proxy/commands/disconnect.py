"""`penstock disconnect`: end a connection to a running proxy, or all of a principal."""

import sys
from pathlib import Path

from proxy.commands.http_port import HttpPortOf, NoResponse, RequestRejected
from proxy.config import ConfigError
from proxy.error_text import text_of
from proxy.net.pages.http_access import AdminTokens, TokenFileError

EXIT_NOT_ALL, EXIT_INVALID = 1, 2


def disconnect(path: Path, wanted: dict[str, str], administrator: str | None) -> int:
    """Print how many connections ended; return the exit code.

    `wanted`: the body of the request (proxy.net.pages.disconnecting). `administrator`: the name whose token
    of the file is sent; None: the only one. 0: all have ended; 1: no response, or not of all workers; 2: the
    file, the token or the request is invalid.
    """
    try:
        port = HttpPortOf.of(path)
        outcome = port.request("POST", "/disconnect", _token(port, administrator), wanted)
    except NoResponse as error:
        return _failed(str(error), EXIT_NOT_ALL)
    except (RequestRejected, ConfigError, TokenFileError, OSError) as error:
        return _failed(text_of(error), EXIT_INVALID)
    print(f"disconnected: {outcome['disconnected']}")
    for text in outcome["errors"]:
        _failed(text, EXIT_NOT_ALL)
    return EXIT_NOT_ALL if outcome["errors"] else 0


def _token(port: HttpPortOf, administrator: str | None) -> str:
    file = port.settings.admin_tokens_file
    if file is None:
        raise ConfigError("http.admin.tokens.file is not set, so no one may end connections")
    tokens = dict(AdminTokens.read(file, file.read_bytes()))
    if administrator is None and len(tokens) == 1:
        return next(iter(tokens.values()))
    if administrator not in tokens:
        raise ConfigError(f"name whose token is to be used with --as: {', '.join(sorted(tokens))}")
    return tokens[administrator]


def _failed(message: str, exit_code: int) -> int:
    print(f"penstock disconnect: {message}", file=sys.stderr)
    return exit_code
