"""Whom quotas hold, and whether they do: what the `quota:` parts of proxy and controller have in common."""

from typing import Literal

from pydantic import field_validator

from proxy.config.parts import Part
from proxy.security.principal import parse_principal


class QuotaRules(Part):
    """The same keys in both files."""

    quota_mode: Literal["enforce", "observe"] = "enforce"
    quota_excluded_principals: str = ""

    @field_validator("quota_excluded_principals")
    @classmethod
    def _are_principals(cls, text: str) -> str:
        for name in _principals(text):
            parse_principal(name)
        return text

    @property
    def enforced(self) -> bool:
        return self.quota_mode == "enforce"

    @property
    def excluded(self) -> tuple[str, ...]:
        """The principals that no quota is for."""
        return tuple(str(parse_principal(name)) for name in _principals(self.quota_excluded_principals))

    def told_rules(self) -> dict[str, str]:
        """For who checks later what was decided."""
        return {"quota.mode": self.quota_mode, "quota.excluded.principals": ";".join(self.excluded)}


def _principals(text: str) -> list[str]:
    return [name.strip() for name in text.split(";") if name.strip()]
