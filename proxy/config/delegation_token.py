"""Delegation tokens (KIP-48): the key they are proved with, and how long the controller lets them last."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from proxy.config.parts import Part, SecretFile
from proxy.security.token_secret import TokenSecret

Duration = Annotated[int, Field(ge=1)]
DAY_MS = 24 * 60 * 60 * 1000


class DelegationToken(Part):
    """What every proxy needs; the same key in all files of the cluster."""

    secret_key_file: SecretFile | None = None

    @field_validator("secret_key_file")
    @classmethod
    def _can_be_used(cls, path: Path | None) -> Path | None:
        if path is not None:
            _secret(path)
        return path

    def secret(self) -> TokenSecret | None:
        """None: there are no delegation tokens. ValueError when the file can no longer be used."""
        return None if self.secret_key_file is None else _secret(self.secret_key_file)


class DelegationTokens(DelegationToken):
    """What the controller needs besides."""

    max_lifetime_ms: Duration = 7 * DAY_MS
    expiry_time_ms: Duration = DAY_MS
    expiry_check_interval_ms: Duration = 60 * 60 * 1000


def _secret(path: Path) -> TokenSecret:
    try:
        # As it stands in Kafka's own configuration: text, whose UTF-8 bytes are the key.
        return TokenSecret(path.read_text(encoding="utf-8").rstrip("\r\n").encode())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
