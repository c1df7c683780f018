"""The configs `owner` and `acls` of topics, which no broker knows (KIP-11, decision 0028).

DescribeConfigs returns them from the image, with the broker's own configs. The controller decides who may set
them. A KRaft controller has no such configs; with it, requests that set them are rejected.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from proxy.metadata.acl import Acl
from proxy.metadata.image import ACLS, OWNER, MetadataImage
from proxy.metadata.topic_acls import stripped, topic_acls, topic_acls_text
from proxy.wire import types

NOT_STORED = (
    "The configs owner and acls of a topic are stored by Penstock's own controller; this cluster uses"
    " Kafka's (controller.mode: kraft), which has no owners. Use kafka-acls."
)

DYNAMIC_TOPIC_CONFIG = 1
"""DescribeConfigsResponse.ConfigSource, by Kafka's number."""
STRING = 2
"""DescribeConfigsResponse.ConfigType."""
MAX_SHOWN_BYTES = 32_000
"""Strings in old versions have at most 32,767 bytes."""

_DOCUMENTATION = {
    OWNER: "The principal that may do everything with this topic unless an ACL denies it.",
    ACLS: "The ACLs on exactly this topic, as type:name:operations:permission:host, separated by semicolons.",
}


class Named(Protocol):
    """A config in a request."""

    name: str


def names_penstock_configs(configs: Iterable[Named]) -> bool:
    """Whether any of the configs in a request is `owner` or `acls`."""
    return any(config.name in (OWNER, ACLS) for config in configs)


def penstock_configs(image: MetadataImage, topic: str) -> dict[str, str]:
    """Return name -> value, without those that are not set."""
    acls = topic_acls(image, topic)
    values = {OWNER: image.topics.owner(topic), ACLS: _shown(topic, acls) if acls else None}
    return {name: value for name, value in values.items() if value}


def described(
    values: dict[str, str], requested: Container[str] | None, synonyms: bool, documentation: bool
) -> list[types.DescribeConfigsResponse.DescribeConfigsResourceResult]:
    """Return parts of a DescribeConfigsResponse for the `requested` names; None: for all."""
    response = types.DescribeConfigsResponse
    return [
        response.DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=DYNAMIC_TOPIC_CONFIG,
            config_type=STRING,
            documentation=_DOCUMENTATION[name] if documentation else None,
            synonyms=[response.DescribeConfigsSynonym(name=name, value=value, source=DYNAMIC_TOPIC_CONFIG)]
            if synonyms
            else [],
        )
        for name, value in values.items()
        if requested is None or name in requested
    ]


def _shown(topic: str, acls: list[Acl]) -> str:
    text = topic_acls_text(map(stripped, acls))
    if len(text.encode()) <= MAX_SHOWN_BYTES:
        return text
    return f"({len(acls)} ACLs: kafka-acls --list --topic {topic})"
