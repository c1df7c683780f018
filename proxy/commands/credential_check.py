"""`penstock check --token` and `--certificate`: what a listener makes of a credential.

Takes a valid configuration and the credential's bytes, and returns lines: whether it is valid or each reason
why not, the principal, its groups, when the session would end, and the ACLs that name it. The token's rules
are those of proxy.security.jwt, the names those of the listener's principal builder. TLS is not spoken: of a
certificate, the chain, the dates and the revocation lists are looked at, and nothing else. A token is never
printed.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from proxy.commands.plain import plain
from proxy.commands.shell.source import KRAFT, TOPIC, LogError, UsageError, find
from proxy.config import ProxyConfig
from proxy.error_text import text_of
from proxy.security.authorizer import super_users
from proxy.security.principal import GROUP_TYPE, USER_TYPE, Principal, from_plugin
from proxy.security.principal_builder import AuthenticationContext
from proxy.security.sasl.exchange import session_end_ms
from proxy.security.simple import SimpleAclAuthorizer, parse_acl_file
from proxy.security.standard import StandardAuthorizer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography import x509

    from proxy.commands.check import Config
    from proxy.config import AuthorizerConfig, ListenerConfig
    from proxy.metadata.acl import Acl
    from proxy.net.logins.oauthbearer import JwksSettings
    from proxy.security.jwk_set import JwkSet

MAX_BYTES = 1 << 20
OAUTHBEARER = "OAUTHBEARER"
_TIMEOUT_MS = 10_000
_MAX_DEPTH = 10
"""Certificates in a chain."""


@dataclass(slots=True)
class CheckedCredential:
    """`principal` is None if the credential makes none."""

    reasons: list[str] = field(default_factory=list)
    """Each reason why it is invalid."""
    principal: Principal | None = None
    lines: list[str] = field(default_factory=list)

    def add_rights(self, authorizer: AuthorizerConfig, log: str | None, config_path: Path) -> None:
        """Add the ACLs that name the principal. `log`: as for `penstock shell`; None: it is not read."""
        if self.principal is None:
            return
        try:
            self.lines += _rights(self.principal, authorizer, log, config_path)
        except ValueError as error:
            self.reasons.append(text_of(error))

    def ends(self, expires_at_ms: int | None, session_ends_at_ms: int | None, now_ms: int) -> None:
        """Add the lines about times."""
        if expires_at_ms is not None:
            self.lines.append(f"expires: {_moment(expires_at_ms)}")
        if session_ends_at_ms is None:
            self.lines.append("session: without end")
        else:
            left_s = (session_ends_at_ms - now_ms) // 1000
            self.lines.append(f"session: {left_s} s, until {_moment(session_ends_at_ms)}")


def listener_for(config: Config, kind: str, name: str | None) -> ListenerConfig:
    """Return the listener that a "token" or a "certificate" is checked for. ValueError: none, or several."""
    listeners = config.listeners if isinstance(config, ProxyConfig) else (config.listener,)
    usable = [each for each in listeners if (_takes_tokens if kind == "token" else _takes_certificates)(each)]
    found = [each for each in usable if name in (None, each.name)]
    names = ", ".join(each.name for each in usable)
    if not found:
        there = f"; those that do: {names}" if names else ""
        raise ValueError(f"no listener{'' if name is None else f' {name}'} takes a {kind}{there}")
    if len(found) > 1:
        raise ValueError(f"several listeners take a {kind}: {names}; choose one with --listener")
    return found[0]


def _takes_tokens(listener: ListenerConfig) -> bool:
    return OAUTHBEARER in set(listener.sasl_enabled_mechanisms) - set(listener.sasl_server_mechanism_classes)


def _takes_certificates(listener: ListenerConfig) -> bool:
    return listener.security_protocol == "SSL" and listener.authenticates


def check_token(config: Config, listener: ListenerConfig, content: bytes, now_ms: int) -> CheckedCredential:
    """Check a token for a listener; keys behind a URL are requested from there."""
    from proxy.security.jwt import Invalid, examine
    from proxy.security.sasl.oauthbearer import provider_of

    found = CheckedCredential()
    token = content.decode("ascii", "replace").strip()
    provider = provider_of(token, listener.oauthbearer())
    if isinstance(provider, Invalid):
        found.reasons.append(provider.reason)
        return found
    try:
        keys = _keys(provider.jwks)
    except ValueError as error:
        found.reasons.append(f"{provider.jwks.url}: no keys: {text_of(error)}")
        return found
    examined = examine(token, keys, provider.policy, now_ms)
    found.reasons += examined.reasons
    if examined.name is not None:
        claimed = Principal(USER_TYPE, examined.name, groups=examined.groups or ())
        _name(
            found,
            listener,
            AuthenticationContext(
                listener=listener.name,
                security_protocol=listener.security_protocol,
                host="",
                mechanism=OAUTHBEARER,
                authenticated=claimed,
            ),
        )
    if examined.expires_at_s is not None:
        expires_at_ms = examined.expires_at_s * 1000
        max_reauth_ms = listener.max_reauth_ms(OAUTHBEARER, config.connections_max_reauth_ms)
        found.ends(expires_at_ms, session_end_ms(max_reauth_ms, expires_at_ms, now_ms), now_ms)
    return found


def _keys(jwks: JwksSettings) -> JwkSet:
    """ValueError: there are none."""
    from proxy.net.logins.http_client import HttpClient, HttpError
    from proxy.net.logins.oauthbearer import requested_keys
    from proxy.security.jwk_set import JwkSet, JwkSetError

    try:
        if jwks.path is not None:
            return JwkSet.parse(jwks.path.read_bytes())
        return asyncio.run(requested_keys(HttpClient(jwks.ca, _TIMEOUT_MS), jwks.url))
    except (OSError, HttpError, JwkSetError) as error:
        raise ValueError(text_of(error)) from error


def check_certificate(listener: ListenerConfig, content: bytes, now_ms: int) -> CheckedCredential:
    """Check a certificate, PEM (with those of intermediate CAs after it) or DER, for a listener."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    found = CheckedCredential()
    try:
        pem = b"-----BEGIN" in content
        sent = x509.load_pem_x509_certificates(content) if pem else [x509.load_der_x509_certificate(content)]
    except ValueError as error:
        found.reasons.append(f"not a certificate: {text_of(error)}")
        return found
    assert listener.ssl is not None
    assert listener.ssl.ca is not None
    anchors = x509.load_pem_x509_certificates(listener.ssl.ca.read_bytes())
    chain = _chain(sent, anchors)
    if not any(chain[-1] == anchor for anchor in anchors):
        found.reasons.append(f"no CA in {listener.ssl.ca} has issued it, or an intermediate one is missing")
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    found.reasons += [reason for each in chain for reason in _date_faults(each, at)]
    if listener.ssl.crl is not None:
        found.reasons += _revocations(chain, listener.ssl.crl, at)
    _name(
        found,
        listener,
        AuthenticationContext(
            listener=listener.name,
            security_protocol="SSL",
            host="",
            certificate=sent[0].public_bytes(Encoding.DER),
        ),
    )
    expires_at_ms = int(sent[0].not_valid_after_utc.timestamp() * 1000)
    ends = [expires_at_ms] if listener.ssl.client_certificate_expiry_enforced else []
    ends += [] if listener.connections_max_age_ms is None else [now_ms + listener.connections_max_age_ms]
    found.ends(expires_at_ms, min(ends, default=None), now_ms)
    return found


def _chain(sent: list[x509.Certificate], anchors: list[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate and those that have issued it, up to the first that is trusted."""
    chain = [sent[0]]
    while chain[-1] not in anchors and len(chain) < _MAX_DEPTH:
        issuer = next((each for each in (*anchors, *sent[1:]) if _has_issued(each, chain[-1])), None)
        if issuer is None or issuer in chain:
            break
        chain.append(issuer)
    return chain


def _has_issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _date_faults(certificate: x509.Certificate, at: datetime) -> Iterator[str]:
    name = certificate.subject.rfc4514_string()
    if at > certificate.not_valid_after_utc:
        yield f"the certificate of {name!r} expired at {certificate.not_valid_after_utc.isoformat()}"
    if at < certificate.not_valid_before_utc:
        yield f"the certificate of {name!r} is valid from {certificate.not_valid_before_utc.isoformat()} on"


def _revocations(chain: list[x509.Certificate], path: Path, at: datetime) -> Iterator[str]:
    """What the lists say of each certificate, of the root too."""
    from cryptography import x509

    begin = b"-----BEGIN X509 CRL-----"
    lists = [x509.load_pem_x509_crl(begin + rest) for rest in path.read_bytes().split(begin)[1:]]
    for certificate in chain:
        issuer = certificate.issuer.rfc4514_string()
        of_issuer = [each for each in lists if each.issuer == certificate.issuer]
        current = [each for each in of_issuer if each.next_update_utc and each.next_update_utc >= at]
        if not of_issuer:
            yield f"{path} has no revocation list of {issuer!r}"
        elif not current:
            yield f"the revocation list of {issuer!r} is past its next update"
        serial = certificate.serial_number
        if any(each.get_revoked_certificate_by_serial_number(serial) is not None for each in of_issuer):
            yield f"the certificate of {certificate.subject.rfc4514_string()!r} is revoked"


def _name(found: CheckedCredential, listener: ListenerConfig, context: AuthenticationContext) -> None:
    """Add the principal that the listener's builder makes."""
    builder = listener.principal_builder()
    try:
        found.principal = from_plugin(lambda: builder.build(context))
    except ValueError as error:
        found.reasons.append(text_of(error))
        return
    groups = ", ".join(map(plain, found.principal.groups)) or "none"
    found.lines += [f"principal: {plain(str(found.principal))}", f"groups: {groups}"]


def log_of(config: Config) -> str:
    """Return the log with the ACLs, as `find` names it."""
    return KRAFT if isinstance(config, ProxyConfig) and config.controller.mode == KRAFT else TOPIC


def _rights(
    principal: Principal, authorizer: AuthorizerConfig, log: str | None, config_path: Path
) -> list[str]:
    """Return a line for each ACL that names the principal, one of its groups or all users; ValueError."""
    names = {str(principal), f"{USER_TYPE}:*", *(f"{GROUP_TYPE}:{group}" for group in principal.groups)}
    settings = authorizer.settings()
    lines = [f"super user: {plain(name)}" for name in sorted(super_users(settings) & names)]
    chosen = authorizer.authorizer_class_name
    if not chosen:
        return [*lines, "ACLs: none, since there is no authorizer: everything is allowed"]
    if chosen == _path(SimpleAclAuthorizer):
        file = authorizer.broker_acl_file_path
        acls = [] if file is None else list(_of_file(file, names))
    elif chosen != _path(StandardAuthorizer):
        return [*lines, f"ACLs: {chosen} decides, and is not asked"]
    elif log is None:
        return [*lines, "ACLs: not looked at; add --connect, or --log PATH"]
    else:
        try:
            image = find(log, config_path, None).image
        except (LogError, UsageError, TimeoutError) as error:
            raise ValueError(f"the metadata log cannot be read: {error or 'no response in time'}") from error
        acls = [_of_log(acl) for acl in image.acls.by_id.each_value() if acl.principal in names]
    return [*lines, *(f"ACL: {acl}" for acl in sorted(acls))] if acls else [*lines, "ACLs: none"]


def _of_file(path: Path, names: set[str]) -> Iterator[str]:
    """What an ACL file says of these principals, owners included."""
    acls = parse_acl_file(path.read_bytes())
    all_rules = [acls.cluster]
    for resource_type, named in acls.resources.items():
        all_rules += named.values()
        yield from (
            f"owner of {resource_type.name} {plain(name)}"
            for name, rules in named.items()
            if rules.owner in names
        )
    for acl in (acl for rules in all_rules for acl in rules.acls if acl.principal in names):
        operations, hosts = (",".join(sorted(each)) for each in ((o.name for o in acl.operations), acl.hosts))
        who = f"from {hosts} for {plain(acl.principal)}"
        yield f"{acl.permission_type.name} {operations} {who} ({plain(acl.place)})"


def _of_log(acl: Acl) -> str:
    resource = f"{acl.resource_type.name} {acl.pattern_type.name} {plain(acl.resource_name)}"
    who = f"from {acl.host} for {plain(acl.principal)}"
    return f"{acl.permission_type.name} {acl.operation.name} {resource} {who}"


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat()
    except (OverflowError, ValueError):
        return f"{at_ms} ms"


def read_credential(path: Path) -> bytes:
    """Return the content of a file, or of standard input for "-". OSError; ValueError: it is too large."""
    content = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else path.read_bytes()
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return content


def check_credential(
    config: Config, kind: str, path: Path, listener_name: str | None, now_ms: int
) -> CheckedCredential:
    """Check the "token" or the "certificate" of a file; the first line says for which listener."""
    try:
        listener = listener_for(config, kind, listener_name)
        content = read_credential(path)
    except (OSError, ValueError) as error:
        return CheckedCredential([text_of(error)])
    if kind == "token":
        found = check_token(config, listener, content, now_ms)
    else:
        found = check_certificate(listener, content, now_ms)
    found.lines.insert(0, f"{kind} at {listener.name}: {'INVALID' if found.reasons else 'valid'}")
    return found
