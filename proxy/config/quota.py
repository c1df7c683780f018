"""Whom quotas hold, and whether they do: what the `quota:` parts of proxy and controller have in common."""

from typing import Annotated, ClassVar, Literal

from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.parts import Part, principal_names, without
from proxy.security.principal import parse_principal


def principals(text: str) -> tuple[str, ...]:
    """The names in `User:a;User:b`, Kafka's way. ValueError for one that is none."""
    return tuple(str(parse_principal(name)) for name in principal_names(text))


def _joined(value: object) -> object:
    """A list of YAML as Kafka writes it."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ";".join(value)
    return value


def _are_principals(text: str) -> str:
    for name in principals(text):
        after_comma = name.partition(",")[2].lstrip()
        if after_comma.startswith("User:"):
            raise ValueError(
                f"a comma stands in {name!r}, which makes it the name of one user;"
                " separate principals by semicolons: User:a;User:b"
            )
    return text


PrincipalsText = Annotated[str, BeforeValidator(_joined), AfterValidator(_are_principals)]
"""`User:a;User:b`, or a list."""


class QuotaRules(Part):
    """The same keys in both files."""

    model_config = without("quota_")
    repeated: ClassVar[str] = "quota."
    quota_mode: Literal["enforce", "observe"] = "enforce"
    quota_excluded_principals: PrincipalsText = ""

    @property
    def enforced(self) -> bool:
        return self.quota_mode == "enforce"

    @property
    def excluded(self) -> tuple[str, ...]:
        """The principals that no quota is for."""
        return principals(self.quota_excluded_principals)

    def told_rules(self) -> dict[str, str]:
        """For who checks later what was decided."""
        return {"quota.mode": self.quota_mode, "quota.excluded.principals": ";".join(self.excluded)}
