"""The keys that the `quota:` sections of proxy and controller have in common."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.parts import Part, principal_names, without
from proxy.security.principal import parse_principal
from proxy.security.protected import DEFAULT_SHARES_TOPIC


def principals(text: str) -> tuple[str, ...]:
    """The principals in `User:a;User:b`. ValueError for an invalid one."""
    return tuple(str(parse_principal(name)) for name in principal_names(text))


def _joined(value: object) -> object:
    """Converts a YAML list to Kafka's notation."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ";".join(value)
    return value


def _are_principals(text: str) -> str:
    for name in principals(text):
        after_comma = name.partition(",")[2].lstrip()
        if after_comma.startswith("User:"):
            raise ValueError(
                f"{name!r} contains a comma, which is part of a user's name;"
                " separate principals by semicolons: User:a;User:b"
            )
    return text


PrincipalsText = Annotated[str, BeforeValidator(_joined), AfterValidator(_are_principals)]
"""`User:a;User:b`, or a list."""


class QuotaRules(Part):
    """Keys of both files."""

    model_config = without("quota_")
    repeated: ClassVar[str] = "quota."
    quota_mode: Literal["enforce", "observe"] = "enforce"
    quota_excluded_principals: PrincipalsText = ""
    quota_cluster_topic: Annotated[str, Field(min_length=1)] = DEFAULT_SHARES_TOPIC
    """No client may use it, also where no quota has the scope `cluster`."""

    @property
    def enforced(self) -> bool:
        return self.quota_mode == "enforce"

    @property
    def excluded(self) -> tuple[str, ...]:
        """The principals that are never limited."""
        return principals(self.quota_excluded_principals)

    def recorded_rules(self) -> dict[str, str]:
        """The settings for the audit trail."""
        return {"quota.mode": self.quota_mode, "quota.excluded.principals": ";".join(self.excluded)}
