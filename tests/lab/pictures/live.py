"""The run that the pictures are of: three brokers behind proxies, clients at work, what operators look for.

A user beyond a quota, wrong passwords and missing rights, reloads, a new certificate, restarts of a proxy,
the controller and a broker.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from confluent_kafka import Producer

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import Entrance, User, librdkafka_settings
from tests.lab.pictures.drawing import Span
from tests.lab.pictures.scraped import Scraper, Target
from tests.lab.rolling import changing
from tests.lab.rolling.clients import KINDS
from tests.lab.rolling.franz_go import FRANZ_GO
from tests.lab.rolling.running import Rolling, Step
from tests.support.cluster_admin import ClusterAdmin

QUOTA = 100_000
CALM_S = 8.0
WRONG_S = 10.0

Say = Callable[[str], None]


def run(directory: Path, libs: Path, samples: Path, say: Say) -> Span:
    """Play it and write what was scraped; SetupError when a client was given an error."""
    stack = Stack(StackSettings(directory=directory, libs=libs, brokers=3))
    targets = [
        *(Target("penstock-proxy", each.proxy.name, each.wiring.proxy_http) for each in stack.nodes),
        Target("penstock-controller", "controller", stack.wiring.controller_http),
    ]
    marks: list[tuple[int, str]] = []
    try:
        stack.start(say)
        scraper = Scraper(targets)
        with scraper.at_work():
            authority = changing.Authority(stack)
            rolling = Rolling(stack, ClusterAdmin(stack), {**KINDS, **FRANZ_GO}, say)
            rolling.play([_marked(step, marks) for step in _steps(stack, rolling, authority)])
            Event().wait(CALM_S)
        ended_ms = now_ms()
    finally:
        stack.stop()
    if rolling.faults:
        raise SetupError("\n".join(rolling.faults))
    scraper.write(samples)
    return Span(scraper.began_ms, ended_ms, marks)


def _steps(stack: Stack, rolling: Rolling, authority: changing.Authority) -> list[Step]:
    calm = Step("", partial(Event().wait, CALM_S))
    steps = [
        Step(f"a producer with a quota of {QUOTA // 1000} kB/s", partial(_beyond_its_quota, stack)),
        Step("wrong passwords, and a topic without rights", partial(_without_rights, stack)),
        rolling.reload(changing.tighter),
        rolling.proxy(stack.nodes[1]),
        rolling.certificate(authority),
        rolling.reload(changing.calmer, by_signal=True),
        rolling.controller(),
        rolling.broker(stack.nodes[2]),
    ]
    return [calm, *(each for step in steps for each in (step, calm))]


def _marked(step: Step, marks: list[tuple[int, str]]) -> Step:
    def does() -> None:
        if step.name:
            marks.append((now_ms(), step.name))
        step.does()

    return Step(step.name, does)


def _beyond_its_quota(stack: Stack) -> None:
    cluster = ClusterAdmin(stack)
    user = cluster.user("batch")
    topic = cluster.topic("batch")
    cluster.allow_produce(user, topic)
    entity = ("--entity-type", "users", "--entity-name", user.name)
    limit = stack.tools("admin").run(
        "kafka-configs", "--alter", *entity, "--add-config", f"producer_byte_rate={QUOTA}"
    )
    load = ("--topic", topic, "--num-records", "4000", "--record-size", "1000", "--throughput", "-1")
    sent = stack.tools(user.name).run(
        "kafka-producer-perf-test", *load, "--command-property", "batch.size=16384"
    )
    for done in (limit, sent):
        if done.returncode != 0:
            raise SetupError(done.said)


def _without_rights(stack: Stack) -> None:
    nobody = ClusterAdmin(stack).user("nobody")
    entrance = stack.entrance()
    _tries(User(nobody.name, nobody.mechanism, "a wrong password"), entrance)
    _tries(nobody, entrance)


def _tries(user: User, entrance: Entrance) -> None:
    """To produce to a topic, for a while; it may not."""
    settings = {"message.timeout.ms": int(WRONG_S * 1000), "log_level": 0, "reconnect.backoff.max.ms": 500}
    producer = Producer(librdkafka_settings(user, entrance) | settings)
    producer.produce("rolling-librdkafka", b"1")
    producer.flush(WRONG_S)
