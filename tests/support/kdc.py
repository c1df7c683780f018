"""A Kerberos KDC of the test's own, on loopback and in one directory, made by MIT's programs.

with Kdc.running(directory) as kdc:
    kdc.principal("alice", keytab=directory / "alice.keytab")

Where they or python-gssapi are missing the tests that ask for it are skipped; with
PENSTOCK_REQUIRE_KERBEROS=1 they fail, so that no suite goes dark unnoticed.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.process import ChildProcess

REALM = "PENSTOCK.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/lib/mit/sbin"))
_START_MS = 20_000

_KRB5_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = {address}
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC_CONF = """\
[kdcdefaults]
    kdc_listen = {address}
    kdc_tcp_listen = {address}
[realms]
    {realm} = {{
        database_name = {directory}/principals
        key_stash_file = {directory}/stash
        acl_file = {directory}/none.acl
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{directory}/kdc.log
"""


def missing() -> list[str]:
    """What the tests cannot do without, and is not here."""
    programs = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    return programs + ([] if importlib.util.find_spec("gssapi") else ["python-gssapi (the extra gssapi)"])


def require() -> None:
    """Skip the test, or fail it, where something is missing."""
    if lacking := missing():
        told = f"Kerberos: not here: {', '.join(lacking)}; see `make kerberos`"
        if os.environ.get("PENSTOCK_REQUIRE_KERBEROS") == "1":
            pytest.fail(told)
        pytest.skip(told)


class Kdc:
    """`environment` is for those who are to know of it, before they use Kerberos."""

    def __init__(self, directory: Path) -> None:
        (address,) = free_addresses(1)
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        placed = {"realm": REALM, "address": address, "directory": directory}
        self.krb5_conf.write_text(_KRB5_CONF.format(**placed))
        (directory / "kdc.conf").write_text(_KDC_CONF.format(**placed))
        self._process = ChildProcess(
            "the KDC", [self._program("krb5kdc"), "-n"], directory / "krb5kdc.log", self._own_environment
        )

    @classmethod
    @contextmanager
    def running(cls, directory: Path) -> Iterator[Self]:
        """With an empty database."""
        kdc = cls(directory)
        kdc._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        with kdc._process:
            kdc._process.wait_until(kdc._is_up, _START_MS)
            yield kdc

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def principal(self, name: str, *, keytab: Path | None = None, extra: tuple[str, ...] = ()) -> None:
        """A new principal with a random key, which is added to the keytab."""
        self._run("kadmin.local", "-r", REALM, "add_principal", *extra, "-randkey", name)
        if keytab is not None:
            self.export(name, keytab)

    def export(self, name: str, keytab: Path) -> None:
        """Its key, as it is, added to the keytab."""
        self._run("kadmin.local", "-r", REALM, "ktadd", "-norandkey", "-k", str(keytab), name)

    def rekey(self, name: str) -> None:
        """A new key: tickets that are given out from now on are for that."""
        self._run("kadmin.local", "-r", REALM, "change_password", "-randkey", name)

    @property
    def _own_environment(self) -> dict[str, str]:
        return {**self.environment, "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}

    def _is_up(self) -> bool:
        log = self.directory / "kdc.log"
        return log.exists() and "commencing operation" in log.read_text()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._program(program), *arguments],
            env={**os.environ, **self._own_environment},
            check=True,
            capture_output=True,
        )

    @staticmethod
    def _program(name: str) -> str:
        found = shutil.which(name, path=_PATH)
        assert found is not None, f"{name} is not here: ask `require` first"
        return found
