"""An identity provider that runs in a thread, for clients and servers in other processes.

It serves its keys and, to whoever asks with any secret, tokens; and it keeps tokens in files fresh.
"""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.identity_provider import AnyKey, jwks, rsa, token

REWRITE_S = 0.5


class RunningProvider:
    """`key` signs what it gives out from now on; `published` are the keys it serves."""

    def __init__(self, token_lifetime_s: int) -> None:
        self.token_lifetime_s = token_lifetime_s
        self.key: AnyKey = rsa()
        self.published: tuple[AnyKey, ...] = (rsa(),)
        self.asked: list[str] = []
        self.url = ""

    def token(self, subject: str, lifetime_s: int | None = None) -> str:
        """A good token of that subject."""
        return token(key=self.key, lifetime_s=lifetime_s or self.token_lifetime_s, sub=subject)

    @contextmanager
    def running(self) -> Iterator["RunningProvider"]:
        """On a free port of loopback."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _endpoints(self))
        self.url = f"http://localhost:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    @contextmanager
    def kept_fresh(self, path: Path, subject: str) -> Iterator[None]:
        """A file that always holds a token that was made a moment ago."""
        over = threading.Event()

        def write() -> None:
            while True:
                new = path.with_suffix(".new")
                new.write_text(self.token(subject))
                new.rename(path)
                if over.wait(REWRITE_S):
                    return

        thread = threading.Thread(target=write)
        path.write_text(self.token(subject))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _endpoints(provider: RunningProvider) -> type[BaseHTTPRequestHandler]:
    class Endpoints(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            self._answer(jwks(*provider.published))

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            client = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().split(":")[0]
            told = {
                "access_token": provider.token(client),
                "token_type": "Bearer",
                "expires_in": provider.token_lifetime_s,
            }
            self._answer(json.dumps(told).encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: what was asked is in `asked`."""

    return Endpoints
