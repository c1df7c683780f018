"""Who decides, and by what settings: what `Authorizer.configure` gets, and what must not be forgotten."""

from typing import Annotated

from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator

from proxy.config.listener import Listener
from proxy.config.parts import ExistingFile, Part
from proxy.security.principal_serde import load_principal_serde


def _serde(dotted_path: str) -> str:
    load_principal_serde(dotted_path)
    return dotted_path


SerdeClass = Annotated[str, AfterValidator(_serde)]
"""principal.serde.class: an error when it is no serde, so that nobody starts without one (E7)."""


class Authorizer(Part):
    """Key by key as in a broker's server.properties; whole, it is what `Authorizer.configure` gets."""

    authorizer_class_name: str | None = None
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool | None = None
    broker_acl_file_path: ExistingFile | None = None
    early_start_listeners: tuple[str, ...] = ()
    own_settings: dict[str, str] = Field(default_factory=dict, alias="settings")

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
            " set it to an empty string to run without authorisation on purpose"
        )
