"""An HTTP front of an object store that fails as it is told to, in threads of the test."""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>'
_NO_LINGER = struct.pack("ii", 1, 0)
"""Closing the socket then sends a RST."""
_OF_A_CONNECTION = ("Connection", "Transfer-Encoding")


class Fault(StrEnum):
    """What happens to a request."""

    REFUSED = "nothing listens at the port"
    RESET = "the connection is reset before the store gets the request"
    LOST = "the store does what it is asked, and the connection is reset before the answer"
    BUSY = "503 SlowDown"
    HANGS = "no answer comes"


class FailingStore:
    """A front of the store at `target`, which is HOST:PORT."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.met = Counter[Fault]()
        """How many requests each fault has met. A connection that is refused is no request."""
        self.fault: Fault | None = None
        self._server = _Server(0, self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._changed = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.fault = Fault.REFUSED
        self._changed.set()
        self._server.shutdown()
        self._server.server_close()

    def fail(self, fault: Fault) -> None:
        if fault == Fault.REFUSED:
            self.stop()
        self._changed.clear()
        self.fault = fault

    def recover(self) -> None:
        if self.fault == Fault.REFUSED:
            self._server = _Server(self._server.server_port, self)
            self.start()
        self.fault = None
        self._changed.set()

    def wait_for_change(self) -> None:
        self._changed.wait()


@contextmanager
def failing_store(target: str) -> Iterator[FailingStore]:
    """Run a front, which passes all requests on until it is told otherwise."""
    front = FailingStore(target)
    front.start()
    try:
        yield front
    finally:
        front.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, front: FailingStore) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.front = front

    def shutdown_request(self, request: object) -> None:
        """Close it at once: the shutdown of Python's own server would end the connection without a RST."""
        assert isinstance(request, socket.socket)
        self.close_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _respond(self) -> None:
        assert "Transfer-Encoding" not in self.headers
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        front = self.server.front
        fault = front.fault
        if fault is None:
            self._send(*self._answer_of_store(body))
            return
        front.met[fault] += 1
        if fault == Fault.BUSY:
            self._send(503, {"Content-Type": "application/xml"}, b"" if self._is_head else _SLOW_DOWN)
            return
        if fault == Fault.LOST:
            self._answer_of_store(body)
        if fault == Fault.HANGS:
            front.wait_for_change()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.close_connection = True

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _respond

    @property
    def _is_head(self) -> bool:
        return self.command == "HEAD"

    def _answer_of_store(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection(self.server.front.target, timeout=60)
        try:
            # Python has answered `Expect` itself.
            headers = {name: value for name, value in self.headers.items() if name != "Expect"}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            headers = {name: value for name, value in response.getheaders() if name not in _OF_A_CONNECTION}
            return response.status, headers, response.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        length = {} if self._is_head else {"Content-Length": str(len(body))}
        for name, value in (headers | length).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Requests are not logged."""
