"""Users of the cluster, made and removed with kafka-configs through the proxy (KIP-554)."""

from functools import partial

from tests.lab.cluster.at_once import at_once
from tests.lab.demo.stage import ACTORS, PRODUCER, NotShown, Stage, must_say


def create(stage: Stage) -> str:
    for actor in ACTORS:
        stage.stack.add_user(actor)
    stage.stack.create_users(*ACTORS)
    described = stage.as_admin("kafka-configs", "--describe", "--entity-type", "users")
    for actor in ACTORS:
        must_say(
            described,
            f"SCRAM credential configs for user-principal '{actor}' are SCRAM-SHA-256=iterations=4096",
        )
    return f"kafka-configs describes SCRAM-SHA-256 credentials of {', '.join(ACTORS)}"


def remove(stage: Stage) -> str:
    at_once([partial(_remove, stage, actor) for actor in ACTORS])
    listed = stage.stack.tools(PRODUCER).run("kafka-topics", "--list")
    must_say(listed, "Authentication failed")
    if listed.returncode == 0:
        raise NotShown(f"{PRODUCER} could still list topics")
    return f"{PRODUCER} can no longer log in: Authentication failed"


def _remove(stage: Stage, actor: str) -> None:
    entity = ("--entity-type", "users", "--entity-name", actor)
    stage.as_admin("kafka-configs", "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
