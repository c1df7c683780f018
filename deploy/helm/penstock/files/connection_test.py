"""`helm test`: connects to each address, checks its certificate against a CA, and exchanges ApiVersions.

Arguments: the CA's file, and addresses as host:port. Exit code 1 if one does not respond as a proxy does.
"""

import socket
import ssl
import struct
import sys

API_VERSIONS, CORRELATION_ID = 18, 7
TIMEOUT_S = 10


def supported_apis(address: str, context: ssl.SSLContext) -> int:
    """The number of APIs in the response of version 0; OSError or ValueError says what is wrong."""
    host, port = address.rsplit(":", 1)
    request = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION_ID, -1)
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as raw,
        context.wrap_socket(raw, server_hostname=host) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", stream.read(4))
        response = stream.read(length)
    correlation_id, error, count = struct.unpack_from(">ihi", response)
    if (correlation_id, error) != (CORRELATION_ID, 0) or count < 1:
        raise ValueError(f"correlation id {correlation_id}, error {error}, {count} APIs")
    return int(count)


def main(ca: str, *addresses: str) -> int:
    context = ssl.create_default_context(cafile=ca)
    failed = False
    for address in addresses:
        try:
            outcome = f"ok, {supported_apis(address, context)} APIs"
        except (OSError, ValueError, struct.error) as error:
            outcome, failed = f"failed: {error}", True
        sys.stdout.write(f"{address}: {outcome}\n")
    return int(failed)


sys.exit(main(*sys.argv[1:]))
