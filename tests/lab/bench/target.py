"""What a workload is run on, and the listeners that it may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.lab.bench.process_cost import cpu_s, resident_kib
from tests.lab.cluster.certificates import Certificates
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.users import User

PLAIN, TLS, MTLS, SASL, SASL_TLS = "PLAINTEXT", "SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"
_SETTLE_MS = 300


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    addresses: Mapping[str, str]
    """By listener."""
    processes: Sequence[ChildProcess]
    """Whose CPU is counted: for `direct` the broker's own."""
    user: User
    """Who logs in by SCRAM-SHA-256."""
    tls: Certificates
    java: bool = False
    """It is a Java program: it compiles for a while, and its memory says nothing of connections."""

    def port(self, listener: str) -> int:
        return int(port(self.addresses[listener]))

    def cpu_s(self) -> float:
        return sum(cpu_s(each.pid) for each in self.processes)

    def resident_kib(self) -> int:
        return sum(resident_kib(each.pid) for each in self.processes)

    def settle(self) -> None:
        """Let it end what it does after the last response."""
        self.processes[0].wait(_SETTLE_MS)


def port(address: str) -> str:
    return address.rpartition(":")[2]
