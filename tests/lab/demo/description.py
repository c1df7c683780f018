"""`DIR/stack.json`: all that someone else needs to use the stack while it is up."""

import json
import os
from pathlib import Path

from proxy.net.metadata.quorum import CLUSTER_METADATA
from tests.lab.cluster import settings
from tests.lab.cluster.node import Node, numbered
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User


def write(stack: Stack) -> Path:
    """Whole at the moment it appears, and for its owner's eyes: it holds the passwords."""
    path = stack.directory / "stack.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(_description(stack), indent=2) + "\n", encoding="utf-8")
    unfinished.rename(path)
    return path


def _description(stack: Stack) -> dict[str, object]:
    users = stack.users.values()
    return {
        "proxy": dict(stack.wiring.listeners),
        "broker": stack.broker.plaintext,
        "controller": stack.broker.controller if stack.kraft else stack.wiring.controller,
        "metrics": f"http://{stack.wiring.proxy_http}/metrics",
        "controller_metrics": None if stack.kraft else f"http://{stack.wiring.controller_http}/metrics",
        "users": {user.name: _login(user, user in stack.wiring.guests) for user in users},
        "properties": {user.name: str(stack.properties_file(user.name)) for user in users},
        "properties_ssl": {user.name: str(stack.properties_file(user.name, "SASL_SSL")) for user in users},
        "ca": str(stack.tls.ca),
        "kafka_libs": str(stack.libs),
        "audit_topic": settings.AUDIT_TOPIC,
        "metadata_topic": CLUSTER_METADATA if stack.kraft else settings.METADATA_TOPIC,
        "logs": str(stack.logs),
        "configs": _configs(stack),
        "nodes": {str(each.number): _node(each) for each in stack.nodes},
        "pids": {
            **{numbered("broker", each.number): each.broker.pid for each in stack.nodes},
            **({} if stack.kraft else {"controller": stack.controller.pid}),
            **{numbered("proxy", each.number): each.proxy.pid for each in stack.nodes},
            "demo": os.getpid(),
        },
    }


def _configs(stack: Stack) -> dict[str, str]:
    ours = {} if stack.kraft else {"controller": str(stack.controller_file)}
    return {**ours, "proxy": str(stack.proxy_file)}


def _node(node: Node) -> dict[str, object]:
    """One broker and its proxy; what stands at the top is the first one's."""
    return {
        "proxy": dict(node.wiring.listeners),
        "broker": node.broker.plaintext,
        "metrics": f"http://{node.wiring.proxy_http}/metrics",
        "config": str(node.proxy_file),
    }


def how_to_connect(stack: Stack) -> str:
    """A few lines for a person: any proxy is a way to all brokers."""
    lines = [
        f"node {each.number}: proxy {each.wiring.listeners['SASL_PLAINTEXT']} (SASL_PLAINTEXT),"
        f" {each.wiring.listeners['SASL_SSL']} (SASL_SSL), before broker {each.broker.plaintext}"
        for each in stack.nodes
    ]
    example = f"--bootstrap-server {stack.entrance().bootstrap} --command-config"
    return "\n".join([*lines, f"Kafka's tools: {example} {stack.properties_file('admin')}"])


def _login(user: User, guest: bool) -> dict[str, object]:
    # PLAIN comes first because it works for every client: librdkafka before 2.6.1 (Debian's kcat) repeats its
    # own nonce in SCRAM's last message, which Kafka 4 rejects, as Penstock does.
    mechanisms = ["PLAIN", user.mechanism] if guest else [user.mechanism]
    return {"mechanism": mechanisms[0], "mechanisms": mechanisms, "password": user.password}
