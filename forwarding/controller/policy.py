"""An operator's policies for topics to be created and configs to be altered (KIP-108, KIP-133).

Classes are named by create.topic.policy.class.name and alter.config.policy.class.name, as at a Kafka broker;
topic_rules has one that needs no Python. They run once the rights are granted. A policy that fails rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from forwarding.controller.authorization import ForwardedAuthorization
from forwarding.controller.topic_owner import TOPIC_CONFIGS, Fault, broker_configs
from proxy.admin.configs import DELETE, SET, SUBTRACT, Alterable, AlterableConfig
from proxy.admin.objects import TYPES
from proxy.audit import events
from proxy.error_text import text_of
from proxy.security.plugin import plugin
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

CREATE_KEY, ALTER_KEY = "create.topic.policy.class.name", "alter.config.policy.class.name"


class PolicyViolation(Exception):
    """Raised by a policy; the client gets the text with POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic to be created."""

    topic: str
    principal: str
    num_partitions: int | None
    """The broker's default is filled in; None with `replicas_assignments`."""
    replication_factor: int | None
    replicas_assignments: Mapping[int, list[int]] | None
    """Partition -> brokers, if the client assigns them."""
    configs: Mapping[str, str | None]
    """The configs in the request, without `owner` and `acls`."""
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """Configs of one resource to be altered."""

    resource_type: str
    """TOPIC, BROKER, GROUP or CLIENT_METRICS."""
    resource_name: str
    principal: str
    configs: Mapping[str, str | None]
    """Each named config with its new value; None if it is reset to its default, or elements are taken out of
    its list."""
    replaces: bool = False
    """AlterConfigs: all configs that are not named are reset to their defaults."""


@runtime_checkable
class CreateTopicPolicy(Protocol):
    """Checks topics to be created. The class is instantiated without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, with `topics > settings` of the file. Raises ValueError that names the key."""
        ...

    def validate_creation(self, creation: TopicCreation) -> None:
        """PolicyViolation, or any other exception, rejects the topic."""
        ...


@runtime_checkable
class AlterConfigPolicy(Protocol):
    """Checks configs to be altered. The class is instantiated without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, with `topics > settings` of the file. Raises ValueError that names the key."""
        ...

    def validate_alteration(self, alteration: ConfigAlteration) -> None:
        """PolicyViolation, or any other exception, rejects the resource."""
        ...


Policy = TypeVar("Policy", CreateTopicPolicy, AlterConfigPolicy)
DryRunResult: TypeAlias = "types.CreateTopicsResponse.CreatableTopicResult"


@dataclass(frozen=True, slots=True)
class Policies:
    create: CreateTopicPolicy | None = None
    alter: AlterConfigPolicy | None = None

    def dry_run_request(self, request: types.CreateTopicsRequest) -> types.CreateTopicsRequest | None:
        """Return the dry run that a broker makes first, of the topics that use its default sizes, or None."""
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

    def creation_fault(
        self,
        topic: types.CreateTopicsRequest.CreatableTopic,
        authorization: ForwardedAuthorization,
        dry_run_results: Mapping[str, DryRunResult],
        dry: bool,
    ) -> Fault | None:
        """Return why the policy rejects a topic, or None. `dry_run_results` has a result for each topic."""
        if self.create is None:
            return None
        dry_run = dry_run_results.get(topic.name)
        if dry_run is not None and dry_run.error_code != ErrorCode.NONE:
            # The broker rejects it whatever the policy says.
            return ErrorCode.of(dry_run.error_code), dry_run.error_message or ""
        creation = _creation(topic, dry_run, str(authorization.context.principal), dry)
        return _validate(
            CREATE_KEY, lambda policy: policy.validate_creation(creation), self.create, authorization
        )

    def alteration_fault(self, resource: Alterable, authorization: ForwardedAuthorization) -> Fault | None:
        if self.alter is None:
            return None
        alteration = ConfigAlteration(
            TYPES[resource.resource_type],
            resource.resource_name,
            str(authorization.context.principal),
            {
                config.name: new_value(config)
                for config in resource.configs
                if config.name not in TOPIC_CONFIGS
            },
            isinstance(resource, types.AlterConfigsRequest.AlterConfigsResource),
        )
        return _validate(
            ALTER_KEY, lambda policy: policy.validate_alteration(alteration), self.alter, authorization
        )


NO_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Dotted paths of the classes, and the settings for their `configure`."""

    create: str | None = None
    alter: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def load_policies(named: PolicySettings) -> Policies:
    """Load both policies. ValueError names the key of a class that cannot be used or rejects its settings."""
    # mypy considers protocols that are checked at run time to be abstract classes.
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
        raise ValueError(f"{key}: {dotted_path!r} rejects its settings: {text_of(error)}") from error
    return policy


def _creation(
    topic: types.CreateTopicsRequest.CreatableTopic, dry_run: DryRunResult | None, principal: str, dry: bool
) -> TopicCreation:
    assignments = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
    sized = topic if dry_run is None else dry_run
    return TopicCreation(
        topic.name,
        principal,
        None if assignments else _known(sized.num_partitions),
        None if assignments else _known(sized.replication_factor),
        assignments or None,
        {config.name: config.value for config in broker_configs(topic.configs)},
        dry,
    )


def _known(number: int) -> int | None:
    return number if number > 0 else None


def _validate(
    key: str, validate: Callable[[Policy], None], policy: Policy, authorization: ForwardedAuthorization
) -> Fault | None:
    try:
        validate(policy)
    except PolicyViolation as violation:
        return ErrorCode.POLICY_VIOLATION, str(violation) or "Policy violation."
    except Exception as error:  # noqa: BLE001 - a foreign policy may raise anything, and must not let pass
        context = authorization.context
        event = events.request_refused(
            listener=context.listener,
            host=context.host,
            principal=str(context.principal),
            client_id=context.client_id,
            method=authorization.method,
            correlation_id=authorization.correlation_id,
            error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR),
            message=f"{key}: the policy failed: {error!r}",
        )
        authorization.events.append(event)
        return ErrorCode.UNKNOWN_SERVER_ERROR, "The policy of this cluster failed."
    return None


def new_value(config: AlterableConfig) -> str | None:
    """Return what a config is set to; None if it is deleted, or less than before."""
    operation = getattr(config, "config_operation", SET)
    return None if operation in (DELETE, SUBTRACT) else config.value
