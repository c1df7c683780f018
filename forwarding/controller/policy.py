"""What an operator's own rules say of topics to be created and configs to be altered (KIP-108, KIP-133).

Classes named by create.topic.policy.class.name and alter.config.policy.class.name, as at a Kafka broker;
topic_rules has one that needs no Python. Asked once the rights are granted. A policy that fails refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from forwarding.controller.access import Access
from forwarding.controller.topic_owner import KEYS, Fault, without
from proxy.audit import events
from proxy.security.plugin import plugin
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

CREATE_KEY, ALTER_KEY = "create.topic.policy.class.name", "alter.config.policy.class.name"
RESOURCE_TYPES = {2: "TOPIC", 4: "BROKER", 16: "CLIENT_METRICS", 32: "GROUP"}
DELETE = 1


class PolicyViolation(Exception):
    """Raised by a policy; the text is what the client is told with POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic as it would be created."""

    topic: str
    principal: str
    num_partitions: int | None
    """With the broker's default filled in; None with `replicas_assignments`."""
    replication_factor: int | None
    replicas_assignments: Mapping[int, list[int]] | None
    """Partition -> brokers, where the client has chosen them."""
    configs: Mapping[str, str | None]
    """Those that the client gave, without `owner` and `acls`."""
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """Configs of one resource as they would be altered."""

    resource_type: str
    """TOPIC, BROKER, GROUP or CLIENT_METRICS."""
    resource_name: str
    principal: str
    configs: Mapping[str, str | None]
    """Each config that is named, with its new value; None where it goes back to its default."""


@runtime_checkable
class CreateTopicPolicy(Protocol):
    """Made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, with `topics > settings` of the file. ValueError, naming the key."""
        ...

    def validate_creation(self, creation: TopicCreation) -> None:
        """PolicyViolation refuses the topic; anything else that is raised does too."""
        ...


@runtime_checkable
class AlterConfigPolicy(Protocol):
    """Made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """As above."""
        ...

    def validate_alteration(self, alteration: ConfigAlteration) -> None:
        """PolicyViolation refuses the resource; anything else that is raised does too."""
        ...


Policy = TypeVar("Policy", CreateTopicPolicy, AlterConfigPolicy)
Tried: TypeAlias = "types.CreateTopicsResponse.CreatableTopicResult"
Alterable: TypeAlias = (
    "types.AlterConfigsRequest.AlterConfigsResource"
    " | types.IncrementalAlterConfigsRequest.AlterConfigsResource"
)
AlterableConfig: TypeAlias = (
    "types.AlterConfigsRequest.AlterableConfig | types.IncrementalAlterConfigsRequest.AlterableConfig"
)


@dataclass(frozen=True, slots=True)
class Policies:
    create: CreateTopicPolicy | None = None
    alter: AlterConfigPolicy | None = None

    def creation_to_try(self, request: types.CreateTopicsRequest) -> types.CreateTopicsRequest | None:
        """What a broker is asked first, as a dry run: topics whose size is its to choose. None: nothing."""
        if self.create is None:
            return None
        topic = types.CreateTopicsRequest.CreatableTopic
        unsized = [
            topic(
                name=each.name, num_partitions=each.num_partitions, replication_factor=each.replication_factor
            )
            for each in request.topics
            if not each.assignments and -1 in (each.num_partitions, each.replication_factor)
        ]
        if not unsized:
            return None
        return types.CreateTopicsRequest(topics=unsized, timeout_ms=request.timeout_ms)

    def of_creation(
        self,
        topic: types.CreateTopicsRequest.CreatableTopic,
        access: Access,
        tried: Mapping[str, Tried],
        dry: bool,
    ) -> Fault | None:
        """`tried`: what the dry run told of each topic in it."""
        if self.create is None:
            return None
        told = tried.get(topic.name)
        if told is not None and told.error_code != ErrorCode.NONE:
            # It cannot be created, whatever a policy says.
            return ErrorCode(told.error_code), told.error_message or ""
        creation = _creation(topic, told, str(access.context.principal), dry)
        return _asked(CREATE_KEY, lambda policy: policy.validate_creation(creation), self.create, access)

    def of_alteration(self, resource: Alterable, access: Access) -> Fault | None:
        if self.alter is None:
            return None
        alteration = ConfigAlteration(
            RESOURCE_TYPES.get(resource.resource_type, "UNKNOWN"),
            resource.resource_name,
            str(access.context.principal),
            {config.name: _new_value(config) for config in resource.configs if config.name not in KEYS},
        )
        return _asked(ALTER_KEY, lambda policy: policy.validate_alteration(alteration), self.alter, access)


NO_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Dotted paths of classes, and what their `configure` gets."""

    create: str | None = None
    alter: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def load_policies(named: PolicySettings) -> Policies:
    """ValueError, naming the key, for a class that is none or refuses its settings."""
    # Protocols that are looked up at run time: mypy takes them for abstract classes.
    create = _loaded(CREATE_KEY, named.create, CreateTopicPolicy, named.settings)  # type: ignore[type-abstract]
    alter = _loaded(ALTER_KEY, named.alter, AlterConfigPolicy, named.settings)  # type: ignore[type-abstract]
    return Policies(create, alter)


def _loaded(
    key: str, dotted_path: str | None, kind: type[Policy], settings: Mapping[str, str]
) -> Policy | None:
    if not dotted_path:
        return None
    policy = plugin(key, dotted_path, kind, "a policy")
    try:
        policy.configure(settings)
    except Exception as error:
        raise ValueError(f"{key}: {dotted_path!r} refuses its settings: {error or repr(error)}") from error
    return policy


def _creation(
    topic: types.CreateTopicsRequest.CreatableTopic, told: Tried | None, principal: str, dry: bool
) -> TopicCreation:
    assignments = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
    sized = topic if told is None else told
    return TopicCreation(
        topic.name,
        principal,
        None if assignments else _known(sized.num_partitions),
        None if assignments else _known(sized.replication_factor),
        assignments or None,
        {config.name: config.value for config in without(topic.configs)},
        dry,
    )


def _known(number: int) -> int | None:
    return number if number > 0 else None


def _asked(key: str, ask: Callable[[Policy], None], policy: Policy, access: Access) -> Fault | None:
    try:
        ask(policy)
    except PolicyViolation as violation:
        return ErrorCode.POLICY_VIOLATION, str(violation) or "Policy violation."
    except Exception as error:  # noqa: BLE001 - a foreign policy may raise anything, and must not let pass
        context = access.context
        event = events.request_refused(
            listener=context.listener,
            host=context.host,
            principal=str(context.principal),
            client_id=context.client_id,
            method=access.method,
            correlation_id=access.correlation_id,
            error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR),
            message=f"{key}: the policy failed: {error!r}",
        )
        access.events.append(event)
        return ErrorCode.UNKNOWN_SERVER_ERROR, "The policy of this cluster failed."
    return None


def _new_value(config: AlterableConfig) -> str | None:
    deleted = getattr(config, "config_operation", 0) == DELETE
    return None if deleted else config.value
