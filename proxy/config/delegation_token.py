"""The `delegation.token:` section (KIP-48): the secret key, and the lifetimes at the controller."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from proxy.config.parts import Part, SecretFile
from proxy.security.token_secret import TokenSecret

Duration = Annotated[int, Field(ge=1)]
DAY_MS = 24 * 60 * 60 * 1000


class DelegationToken(Part):
    """The keys for proxies. All files of the cluster need the same secret key."""

    secret_key_file: SecretFile | None = None

    @field_validator("secret_key_file")
    @classmethod
    def _can_be_used(cls, path: Path | None) -> Path | None:
        if path is not None:
            _secret(path)
        return path

    def secret(self) -> TokenSecret | None:
        """The secret key; None without delegation tokens. ValueError if the file can no longer be read."""
        return None if self.secret_key_file is None else _secret(self.secret_key_file)


class DelegationTokens(DelegationToken):
    """The keys for controllers."""

    max_lifetime_ms: Duration = 7 * DAY_MS
    expiry_time_ms: Duration = DAY_MS
    expiry_check_interval_ms: Duration = 60 * 60 * 1000


def _secret(path: Path) -> TokenSecret:
    try:
        # As in Kafka's own configuration: the key is the UTF-8 bytes of the text.
        return TokenSecret(path.read_text(encoding="utf-8").rstrip("\r\n").encode())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
