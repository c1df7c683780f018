"""Looks at a process of ours from outside: is it ready, what do its metrics say."""

import http.client


def get(address: str, path: str, timeout_s: float = 5) -> tuple[int, str]:
    """One GET: status and body; OSError while nobody listens."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def is_ready(address: str) -> bool:
    try:
        return get(address, "/readyz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def series(address: str, timeout_s: float = 5) -> dict[str, float]:
    """Every sample of a Prometheus endpoint, by name and labels as it writes them."""
    lines = get(address, "/metrics", timeout_s)[1].splitlines()
    samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}
