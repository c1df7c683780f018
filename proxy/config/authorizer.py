"""The `authorizer:` section: the class and its settings, which `Authorizer.configure` gets."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.listener import ListenerConfig
from proxy.config.parts import (
    LIVE,
    RESTART,
    ExistingFile,
    KeyProblem,
    Listed,
    Part,
    PluginSettings,
    PrincipalsText,
    Unset,
    checked_by,
    without,
)
from proxy.security.principal_serde import load_principal_serde

SerdeClass = Annotated[str, checked_by(load_principal_serde)]
"""principal.serde.class. Validation loads it, so that no process starts without a serde (E7)."""


STANDARD = "proxy.security.standard.StandardAuthorizer"
SIMPLE = "proxy.security.simple.SimpleAclAuthorizer"
_NAMES = {
    "StandardAuthorizer": STANDARD,
    "SimpleAclAuthorizer": SIMPLE,
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer": STANDARD,
}
_OF_ZOOKEEPER = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")


def _full_name(value: object) -> object:
    """Replace a short name, and that of Kafka's class, by the path of Penstock's class."""
    return _NAMES.get(value, value) if isinstance(value, str) else value


def _is_of_python(name: str) -> str:
    if name in _OF_ZOOKEEPER:
        raise ValueError(
            f"{name} reads ACLs from ZooKeeper, which Penstock does not use; write StandardAuthorizer, which"
            " decides in the same way, and create the ACLs again with kafka-acls"
        )
    if name.startswith("org.apache.kafka."):
        raise ValueError(f"{name} is a Java class; write StandardAuthorizer, or name a Python class")
    return name


ClassName = Annotated[str, BeforeValidator(_full_name), AfterValidator(_is_of_python)]


class AuthorizerConfig(Part):
    """The `authorizer:` section. The keys are those of a broker's server.properties."""

    model_config = without("authorizer_")
    repeated: ClassVar[str] = "authorizer."
    authorizer_class_name: Annotated[ClassName | None, LIVE, Unset("not set")] = None
    """`StandardAuthorizer`, which decides as Kafka's, `SimpleAclAuthorizer`, which decides by a JSON file, or
    the path of another class, package.module.Class; see [authorizers](authorizers.md). Required if a listener
    authenticates clients. Set to the empty string to allow everything."""
    super_users: Annotated[PrincipalsText, LIVE] = ""
    """The principals that may do everything, even before the log is loaded: `User:alice;Group:admins`."""
    allow_everyone_if_no_acl_found: Annotated[bool | None, LIVE, Unset("the class's own")] = None
    """Whether a resource without ACLs is open: by default no with StandardAuthorizer, as in Kafka, and yes
    with SimpleAclAuthorizer, as in KIP-11."""
    broker_acl_file_path: Annotated[ExistingFile | None, LIVE] = None
    """The file of SimpleAclAuthorizer; see [authorizers](authorizers.md#simpleaclauthorizer). Reloaded when
    it changes."""
    early_start_listeners: Annotated[tuple[str, ...], Listed, LIVE] = ()
    """Names of listeners that open before the log is loaded, for super users only."""
    candidate: Annotated[ExistingFile | None, LIVE] = None
    """At a proxy: a [file of rights](commands.md#the-file) whose ACLs [decide beside those in
    effect](policy.md#a-shadow), and change nothing. Read at the start and at each reload."""
    own_settings: Annotated[PluginSettings, LIVE] = Field(default_factory=dict, alias="settings")
    """Further settings for the class: `{"office.hours": "8-18"}`. See [writing an
    authorizer](authorizers.md#writing-an-authorizer)."""

    @model_validator(mode="after")
    def _no_setting_is_given_twice(self) -> "AuthorizerConfig":
        twice = sorted(self.own_settings.keys() & self.recorded_settings().keys())
        if twice:
            raise ValueError(
                f"settings: {', '.join(twice)}: move it one level up, where it is a key of its own"
            )
        return self

    def settings(self) -> dict[str, str]:
        """All settings as strings by Kafka's names, including those of a plug-in."""
        return self.own_settings | self.recorded_settings()

    def recorded_settings(self) -> dict[str, str]:
        """The settings for the audit trail, without those of a plug-in, which may be secret."""
        everyone = self.allow_everyone_if_no_acl_found
        return {
            "authorizer.class.name": self.authorizer_class_name or "",
            "super.users": self.super_users,
            # If it is not set, each class has its own default.
            "allow.everyone.if.no.acl.found": "" if everyone is None else str(everyone).lower(),
            "broker.acl.file.path": str(self.broker_acl_file_path or ""),
            "early.start.listeners": ",".join(self.early_start_listeners),
        }


class PolicyConfig(Part):
    """The `policy:` section."""

    assertions: Annotated[ExistingFile | None, RESTART] = None
    """A file of [assertions](policy.md#assertions) that ACLs have to keep: a change that breaks one is
    [rejected](policy.md#a-guard). At the controller, or with `controller.mode: kraft` at each proxy. Reloaded
    when it changes."""


def require_provable(policy: PolicyConfig, authorizer: AuthorizerConfig) -> None:
    """Assertions are proved of Kafka's ACLs, and a candidate has these, not of what decides otherwise."""
    if authorizer.authorizer_class_name == STANDARD:
        return
    if policy.assertions is not None:
        raise KeyProblem(
            ("policy", "assertions"), "assertions are about the ACLs of StandardAuthorizer; configure it"
        )
    if authorizer.candidate is not None:
        raise KeyProblem(
            ("authorizer", "candidate"), "a candidate has ACLs of StandardAuthorizer; configure it"
        )


def require_authorizer(listeners: tuple[ListenerConfig, ...], authorizer: AuthorizerConfig) -> None:
    """A2: if clients are authenticated, authorization can be disabled only explicitly."""
    if any(listener.authenticates for listener in listeners) and authorizer.authorizer_class_name is None:
        raise ValueError(
            "authorizer.class.name is not set, but a listener authenticates clients;"
            ' write authorizer: {class.name: StandardAuthorizer}, or "" to allow everything'
        )


def require_early_start_listeners(
    listeners: tuple[ListenerConfig, ...], authorizer: AuthorizerConfig
) -> None:
    """KIP-801: the listeners in early.start.listeners exist."""
    unknown = set(authorizer.early_start_listeners) - {listener.name for listener in listeners}
    if unknown:
        names = ", ".join(listener.name for listener in listeners)
        raise KeyProblem(
            ("authorizer", "early.start.listeners"),
            f"no listener has the name {', '.join(sorted(unknown))}; the listeners are {names}",
        )
