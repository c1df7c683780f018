"""Who decides, and by what settings: what `Authorizer.configure` gets, and what must not be forgotten."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.listener import Listener
from proxy.config.parts import ExistingFile, KeyProblem, Listed, Part, PluginSettings, without
from proxy.config.quota import PrincipalsText
from proxy.security.principal_serde import load_principal_serde


def _serde(dotted_path: str) -> str:
    load_principal_serde(dotted_path)
    return dotted_path


SerdeClass = Annotated[str, AfterValidator(_serde)]
"""principal.serde.class: an error when it is no serde, so that nobody starts without one (E7)."""


STANDARD = "proxy.security.standard.StandardAuthorizer"
_KAFKAS = {"org.apache.kafka.metadata.authorizer.StandardAuthorizer": STANDARD}
_OF_ZOOKEEPER = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")


def _kafkas(value: object) -> object:
    """Kafka's own class stands for ours, which decides alike."""
    return _KAFKAS.get(value, value) if isinstance(value, str) else value


def _is_of_python(name: str) -> str:
    if name in _OF_ZOOKEEPER:
        raise ValueError(
            f"{name} reads ACLs from ZooKeeper, which is not asked here; write {STANDARD}, which decides"
            " alike, and make the ACLs anew with kafka-acls"
        )
    if name.startswith("org.apache.kafka."):
        raise ValueError(f"{name} is a Java class; here it is a Python class, such as {STANDARD}")
    return name


ClassName = Annotated[str, BeforeValidator(_kafkas), AfterValidator(_is_of_python)]


class Authorizer(Part):
    """Key by key as in a broker's server.properties; whole, it is what `Authorizer.configure` gets."""

    model_config = without("authorizer_")
    repeated: ClassVar[str] = "authorizer."
    authorizer_class_name: ClassName | None = None
    super_users: PrincipalsText = ""
    allow_everyone_if_no_acl_found: bool | None = None
    broker_acl_file_path: ExistingFile | None = None
    early_start_listeners: Annotated[tuple[str, ...], Listed] = ()
    own_settings: PluginSettings = Field(default_factory=dict, alias="settings")

    @model_validator(mode="after")
    def _no_setting_is_given_twice(self) -> "Authorizer":
        twice = sorted(self.own_settings.keys() & self.told_settings().keys())
        if twice:
            raise ValueError(f"settings: {', '.join(twice)}: a key of its own, one level up")
        return self

    def settings(self) -> dict[str, str]:
        """As strings under Kafka's names, those of a plug-in among them."""
        return self.own_settings | self.told_settings()

    def told_settings(self) -> dict[str, str]:
        """Those that the audit trail tells: a plug-in's may hold a secret."""
        everyone = self.allow_everyone_if_no_acl_found
        return {
            "authorizer.class.name": self.authorizer_class_name or "",
            "super.users": self.super_users,
            # Left out, it is what each class takes it to be.
            "allow.everyone.if.no.acl.found": "" if everyone is None else str(everyone).lower(),
            "broker.acl.file.path": str(self.broker_acl_file_path or ""),
            "early.start.listeners": ",".join(self.early_start_listeners),
        }


def require_authorizer(listeners: tuple[Listener, ...], authorizer: Authorizer) -> None:
    """A2: where clients are authenticated, leaving authorisation out must be said, not forgotten."""
    if any(listener.authenticates for listener in listeners) and authorizer.authorizer_class_name is None:
        raise ValueError(
            "authorizer.class.name is not set while a listener authenticates its clients;"
            f' write authorizer: {{class.name: {STANDARD}}}, or "" to allow everything on purpose'
        )


def require_early_start_listeners(listeners: tuple[Listener, ...], authorizer: Authorizer) -> None:
    """KIP-801: those named exist."""
    unknown = set(authorizer.early_start_listeners) - {listener.name for listener in listeners}
    if unknown:
        names = ", ".join(listener.name for listener in listeners)
        raise KeyProblem(
            ("authorizer", "early.start.listeners"),
            f"early.start.listeners names no listener: {', '.join(sorted(unknown))}; there is {names}",
        )
