"""ACLs: denied without one, allowed with one (KIP-11, KIP-801), with Kafka's own tools through the proxy."""

from functools import partial

from tests.lab.cluster.at_once import at_once
from tests.lab.demo.stage import (
    CONSUMER,
    GROUP,
    IDLER,
    PRODUCER,
    TOPIC,
    NotShown,
    Stage,
    last_lines,
    must_say,
    must_succeed,
)

_LINES = [f"order {number}" for number in range(100)]


def create_topic(stage: Stage) -> str:
    must_say(stage.as_admin("kafka-topics", "--create", "--topic", TOPIC), f"Created topic {TOPIC}.")
    return f"Created topic {TOPIC}"


def denied(stage: Stage) -> str:
    run = stage.stack.tools(PRODUCER).run("kafka-console-producer", "--topic", TOPIC, stdin="too early\n")
    must_say(run, f"Not authorized to access topics: [{TOPIC}]")
    return f"TopicAuthorizationException: Not authorized to access topics: [{TOPIC}]"


def allow(stage: Stage) -> str:
    producers = [
        word for name in (PRODUCER, CONSUMER, IDLER) for word in ("--allow-principal", f"User:{name}")
    ]
    consumer = ("--allow-principal", f"User:{CONSUMER}")
    producing = ("kafka-acls", "--add", *producers, "--producer", "--topic", TOPIC)
    consuming = ("kafka-acls", "--add", *consumer, "--consumer", "--topic", TOPIC, "--group", GROUP)
    at_once([partial(stage.as_admin, *producing), partial(stage.as_admin, *consuming)])
    listed = must_say(
        stage.as_admin("kafka-acls", "--list"), f"principal=User:{PRODUCER}, host=*, operation=WRITE"
    )
    must_say(listed, f"principal=User:{CONSUMER}, host=*, operation=READ")
    return f"kafka-acls lists {listed.stdout.count('permissionType=ALLOW')} bindings"


def allowed(stage: Stage) -> str:
    sent = "\n".join([*_LINES, ""])
    must_succeed(stage.stack.tools(PRODUCER).run("kafka-console-producer", "--topic", TOPIC, stdin=sent))
    consumed = stage.stack.tools(CONSUMER).run(
        *("kafka-console-consumer", "--topic", TOPIC, "--group", GROUP, "--from-beginning"),
        *("--max-messages", str(len(_LINES)), "--timeout-ms", "30000"),
    )
    received = consumed.stdout.splitlines()
    # In the order in which they were sent only where the topic has one partition.
    if sorted(received) != sorted(_LINES):
        raise NotShown(f"{len(received)} of {len(_LINES)} records came, {last_lines(consumed.said)}")
    return f"{PRODUCER} sent {len(_LINES)} records, {CONSUMER} read the same {len(received)} in group {GROUP}"


def withdraw(stage: Stage) -> str:
    stage.as_admin("kafka-acls", "--remove", "--force", "--topic", TOPIC)
    stage.as_admin("kafka-acls", "--remove", "--force", "--group", GROUP)
    run = stage.stack.tools(PRODUCER).run("kafka-console-producer", "--topic", TOPIC, stdin="too late\n")
    must_say(run, f"Not authorized to access topics: [{TOPIC}]")
    return f"{PRODUCER} is denied again"
