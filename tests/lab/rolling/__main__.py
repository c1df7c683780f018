"""`python -m tests.lab.rolling`: proxies, controller and brokers restart under load; clients only reconnect.

Three brokers, each behind a proxy, and a controller on loopback; Java, librdkafka, franz-go, kafka-python and
aiokafka producers and consumers. Certificates and configurations change meanwhile. Exit code 1 when a client
was given an error, a record is lost or doubled, or a reload has closed a connection. Waits are printed only.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab.cluster import kafka
from tests.lab.cluster.release import Release
from tests.lab.cluster.saying import say_when
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.rolling.clients import KINDS
from tests.lab.rolling.franz_go import FRANZ_GO
from tests.lab.rolling.java import JAVA
from tests.lab.rolling.kafka_python import KAFKA_PYTHON
from tests.lab.rolling.running import roll
from tests.lab.rolling.upgrading import upgrade


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.rolling", description=__doc__)
    parser.add_argument("--keep", type=Path, help="a directory for logs and data, to look into")
    parser.add_argument(
        "--held",
        action="store_true",
        help="like --plain, and hold the listening sockets meanwhile, as systemd may do",
    )
    parser.add_argument(
        "--plain", action="store_true", help="stop the proxies and start them again, without a successor"
    )
    parser.add_argument(
        "--upgrade",
        type=Release.of,
        nargs="+",
        metavar="VERSION",
        help="upgrade the brokers from the first release over the others to the newest, then its features,"
        " instead of restarting everything",
    )
    parser.add_argument(
        "--kraft", action="store_true", help="with controller.mode kraft, and so without a controller of ours"
    )
    arguments = parser.parse_args(argv)
    first, *later = arguments.upgrade or [Release.chosen()]
    with tempfile.TemporaryDirectory() as directory:
        place = arguments.keep or Path(directory)
        stack = Stack(
            StackSettings(
                directory=place,
                libs=kafka.libs(),
                release=first,
                brokers=3,
                controller="kraft" if arguments.kraft else "penstock",
                holds_sockets=arguments.held,
            )
        )
        kinds = {**JAVA, **KINDS, **FRANZ_GO, **KAFKA_PYTHON}
        try:
            stack.start(say_when)
            if arguments.upgrade:
                faults = upgrade(stack, kinds, say_when, [*later, Release()])
            else:
                faults = roll(stack, kinds, say_when, plain=arguments.plain)
        finally:
            killed = stack.stop()
    faults += [f"{name} had to be killed" for name in killed]
    for fault in faults:
        say_when(f"FAULT {fault}")
    say_when(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
