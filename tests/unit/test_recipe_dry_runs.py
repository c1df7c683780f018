"""The recipes of CONTRIBUTING.md, followed on a copy: which files change, and whether the result works.

Each test edits the copy as its recipe says. A child process then imports the product from the copy, and uses
what was added. A line in the map of a package is documentation, and is not counted.
"""

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import pytest

pytestmark = pytest.mark.tooling

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("proxy", "forwarding", "spark_audit")


@dataclass(frozen=True)
class Copy:
    """The product's packages below `path`."""

    path: Path

    def add(self, file: str, source: str) -> None:
        """Write a new file."""
        assert not (self.path / file).exists(), f"{file} exists"
        (self.path / file).write_text(dedent(source).lstrip(), encoding="utf-8")

    def insert(self, file: str, text: str, *, before: str) -> None:
        """Insert lines in front of the only line that starts with `before`, indented like it."""
        lines = (self.path / file).read_text(encoding="utf-8").splitlines()
        indentation = before.removesuffix(before.lstrip())
        places = [number for number, line in enumerate(lines) if line.startswith(before)]
        assert len(places) == 1, f"{file} has {len(places)} lines that start with {before!r}"
        place = places[0]
        lines[place:place] = indent(dedent(text).removeprefix("\n"), indentation).splitlines()
        (self.path / file).write_text("\n".join([*lines, ""]), encoding="utf-8")

    def changed(self) -> list[str]:
        """Return the files that are new, or whose code differs from the checkout's."""
        files = [path for package in PACKAGES for path in (self.path / package).rglob("*.py")]
        names = sorted(path.relative_to(self.path).as_posix() for path in files)
        return [name for name in names if self._is_changed(name)]

    def _is_changed(self, name: str) -> bool:
        if not (ROOT / name).exists():
            return True
        copied, original = (self.path / name).read_bytes(), (ROOT / name).read_bytes()
        return copied != original and _code(copied) != _code(original)

    def run(self, script: str) -> None:
        """Run a script in a process that imports the product from the copy, `tests` from the checkout."""
        path = os.pathsep.join([str(self.path), str(ROOT)])
        own = f"import proxy; assert proxy.__path__[0].startswith({str(self.path)!r}), proxy.__path__\n"
        child = subprocess.run(
            [sys.executable, "-c", own + dedent(script)],
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert child.returncode == 0, child.stderr


def _code(source: bytes) -> str:
    """Return what the module does: its syntax tree without its docstring."""
    tree = ast.parse(source)
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return ast.dump(tree)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    return Copy(tmp_path)


def test_a_sasl_mechanism_with_settings_takes_two_product_files(copy: Copy) -> None:
    copy.add(
        "proxy/security/sasl/badge.py",
        '''
        """BADGE: the token is the number of a user's badge."""

        from collections.abc import Mapping

        from proxy.security.principal import Principal
        from proxy.security.sasl.exchange import Accepted, Rejected


        class BadgeExchange:
            """Accepts the badges of the settings: number -> user."""

            def __init__(self, users: Mapping[str, str]) -> None:
                self._users = users

            def respond(self, token: bytes, now_ms: int) -> Accepted | Rejected:
                user = self._users.get(token.decode())
                return Accepted(Principal("User", user), b"") if user else Rejected("", "unknown badge")
        ''',
    )
    copy.insert(
        "proxy/security/sasl/__init__.py", "badge                BADGE, server side", before="client "
    )
    credentials = "proxy/net/logins/credentials.py"
    copy.insert(
        credentials,
        "from proxy.security.sasl.badge import BadgeExchange",
        before="from proxy.security.sasl.exchange import Exchange",
    )
    copy.insert(
        credentials,
        """
        def _badge(settings: LoginSettings, _credentials: Credentials) -> SaslMechanism:
            users = settings.sasl_server_mechanism_settings.get("BADGE", {})
            return _Mechanism("BADGE", lambda: BadgeExchange(users))


        """,
        before="BUILT_IN: ",
    )
    copy.insert(credentials, '"BADGE": _badge,', before='    "PLAIN": _plain,')

    assert copy.changed() == [credentials, "proxy/security/sasl/badge.py"]
    copy.run(
        """
        from proxy.config.listener import ListenerConfig
        from proxy.net.logins.credentials import Credentials, sasl_listener
        from proxy.net.logins.credentials import PlainUsers
        from proxy.wire.error_codes import ErrorCode
        from tests.session.conversation import Conversation

        listener = ListenerConfig.model_validate({
            "name": "SASL",
            "bind": "127.0.0.1:9092",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["PLAIN", "BADGE"],
            "sasl.server.mechanism.settings": {"BADGE": {"7": "carol"}},
        })
        def connected():
            credentials = Credentials(PlainUsers({}), lambda: None)
            return Conversation(sasl_listener=sasl_listener(listener, credentials))

        talk = connected()
        assert talk.shakes_hands("UNKNOWN").mechanisms == ["PLAIN", "BADGE"]

        talk = connected()
        assert talk.shakes_hands("BADGE").error_code == ErrorCode.NONE
        assert talk.authenticates(b"7").error_code == ErrorCode.NONE
        (login,) = talk.told("authentication")
        assert (login.mechanism, login.principal) == ("BADGE", "User:carol"), login

        talk = connected()
        talk.shakes_hands("BADGE")
        assert talk.authenticates(b"8").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        (failed,) = talk.told("authentication_failed")
        assert (failed.mechanism, failed.message) == ("BADGE", "unknown badge"), failed
        """
    )


def test_a_quota_type_takes_four_product_files(copy: Copy) -> None:
    copy.insert(
        "proxy/quota/keys.py",
        'OWN_RESPONSE_BYTE_RATE = "own_response_byte_rate"',
        before='PRODUCER_BYTE_RATE = "producer_byte_rate"',
    )
    copy.insert(
        "proxy/quota/keys.py",
        'OWN_RESPONSE_BYTE_RATE: QuotaKey(largest=LONG_MAX, unit="bytes"),',
        before="    PRODUCER_BYTE_RATE: QuotaKey(",
    )
    copy.insert(
        "spark_audit/quota_keys.py", '"own_response_byte_rate": ("bytes", 1),', before="    PRODUCER: ("
    )
    state = "proxy/session/client_state.py"
    copy.insert(
        state,
        "from proxy.quota.keys import OWN_RESPONSE_BYTE_RATE",
        before="from proxy.security.authorizer import ",
    )
    copy.insert(state, '"own_responses",', before='        "producer",')
    copy.insert(
        state,
        "self.own_responses: Bucket = UNLIMITED",
        before="            self.producer: Bucket = UNLIMITED",
    )
    copy.insert(
        state,
        """
        self.own_responses = quotas.bucket(OWN_RESPONSE_BYTE_RATE, *entity)
        """,
        before="            self.producer = quotas.bucket(",
    )
    buckets = "return self.producer, self.consumer, self.request"
    copy.insert(state, f"{buckets}, self.own_responses", before=f"        {buckets}")
    copy.insert(
        "proxy/session/throttling.py",
        """
        bucket = call.client.own_responses
        if bucket.limited and (throttle_time_ms := bucket.record(call.size_bytes, call.now_ms)):
            response.throttle_time_ms = throttle_time_ms
            return [Throttle(bucket, throttle_time_ms), MuteClient(throttle_time_ms)]
        """,
        before="    if not call.client.request.limited:",
    )

    assert copy.changed() == [
        "proxy/quota/keys.py",
        "proxy/session/client_state.py",
        "proxy/session/throttling.py",
        "spark_audit/quota_keys.py",
    ]
    copy.run(
        """
        from forwarding.controller.quotas import alter_client_quotas
        from proxy.quota.keys import KEYS, OF_CLIENTS
        from spark_audit.quota_keys import KEYS as JOBS_KEYS, UNITS
        from proxy.metadata.image import MetadataImage
        from proxy.wire import types as t
        from proxy.wire.api_keys import ApiKey
        from tests.session.conversation import Conversation, gate_with
        from tests.support.images import image_of

        request = t.AlterClientQuotasRequest
        def entry(key):
            alice = request.EntityData(entity_type="user", entity_name="alice")
            return request.EntryData(entity=[alice], ops=[request.OpData(key=key, value=1.0)])

        def errors(outcome):
            return [each.error_message for each in outcome.response.entries]

        other = alter_client_quotas(request(entries=[entry("other_byte_rate")]), MetadataImage.EMPTY)
        assert errors(other) == ["Invalid configuration key other_byte_rate"], errors(other)
        altered = alter_client_quotas(request(entries=[entry("own_response_byte_rate")]), MetadataImage.EMPTY)
        assert errors(altered) == [None], errors(altered)

        def throttled(user):
            talk = Conversation(principal=user, gate=gate_with(image_of(*altered.records)))
            talk.asks(ApiKey.DESCRIBE_ACLS, 3, t.DescribeAclsRequest(
                resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
            ))
            waits_ms = talk.heard(ApiKey.DESCRIBE_ACLS, 3).throttle_time_ms
            assert talk.mutes == ([waits_ms] if waits_ms else []), talk.mutes
            keys = [bucket.key for bucket in talk.session.machine.client.buckets if bucket.limited]
            records = [each.quota_key for each in talk.summaries() if each.event == "throttled"]
            return waits_ms > 0, keys, records

        assert KEYS["own_response_byte_rate"].unit == UNITS["own_response_byte_rate"][0]
        assert "own_response_byte_rate" in JOBS_KEYS and "own_response_byte_rate" in OF_CLIENTS
        assert throttled("alice") == (True, ["own_response_byte_rate"], ["own_response_byte_rate"])
        assert throttled("bob") == (False, [], [])
        """
    )


def test_a_configuration_key_takes_two_product_files(copy: Copy) -> None:
    copy.insert(
        "proxy/config/proxy.py",
        '''
        connections_max_age_ms: Annotated[Duration, NEW_CONNECTIONS] = 86_400_000
        """A connection is closed after this time."""
        ''',
        before="    login_timeout_ms: ",
    )
    copy.insert(
        "proxy/config/machine.py",
        """
        def max_age_ms(config: ProxyConfig) -> int:
            return config.limits.connections_max_age_ms


        """,
        before="def cannot_be(",
    )

    assert copy.changed() == ["proxy/config/machine.py", "proxy/config/proxy.py"]
    copy.run(
        """
        from pathlib import Path

        import yaml

        from forwarding.config import ControllerConfig
        from proxy.config import ProxyConfig, effects
        from proxy.config.reading import read
        from proxy.config.machine import max_age_ms
        from tests.support.configuration_page import PAGE, with_tables
        from tests.unit.config.test_changes import a_document

        def limits(**keys):
            content = yaml.safe_dump(a_document(limits=keys)).encode()
            return read(Path("proxy.yaml"), content, ProxyConfig)

        before, after = limits().settings, limits(**{"connections.max.age.ms": 5}).settings
        assert (max_age_ms(before), max_age_ms(after)) == (86_400_000, 5)
        (change,) = effects.changes(before, after, effects.of(ProxyConfig))
        assert (change.key, str(change.effect)) == ("limits > connections.max.age.ms", "new connections")
        assert "limits.connections_max_age_ms" in effects.of(ControllerConfig)

        (problem,) = limits(**{"connections.max.aeg.ms": 5}).problems
        assert problem.endswith("unknown key; did you mean connections.max.age.ms?"), problem
        row = "| `limits.connections.max.age.ms` | `86400000` | new connections |"
        assert row in with_tables(PAGE.read_text(encoding="utf-8"))
        """
    )


def test_a_metric_takes_one_product_file(copy: Copy) -> None:
    copy.insert(
        "proxy/net/pages/readiness.py",
        """
        yield GaugeMetricFamily(
            "penstock_ready_parts", "Parts that are ready", len(found.others), merge="min"
        )
        """,
        before="        blocked = GaugeMetricFamily(",
    )

    assert copy.changed() == ["proxy/net/pages/readiness.py"]
    copy.run(
        """
        import asyncio
        from pathlib import Path

        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest

        import proxy
        from proxy.net.pages.readiness import Readiness, ReadinessSeries
        from proxy.workers.exposition import Exposition, snapshot
        from tests.support import metrics_page

        def page(*parts):
            registry = CollectorRegistry()
            registry.register(ReadinessSeries(lambda: Readiness((), parts)))
            return asyncio.run(snapshot(registry))

        merged, registry = Exposition(), CollectorRegistry()
        merged.update(0, page(), 1)
        merged.update(1, page(), 1)
        registry.register(merged)
        assert b"penstock_ready_parts 0.0" in generate_latest(registry)

        metrics_page.ROOT = Path(proxy.__file__).parents[1]
        table = metrics_page.with_tables(metrics_page.PAGE.read_text(encoding="utf-8"))
        assert "| `penstock_ready_parts` | gauge | | Parts that are ready | min |" in table
        """
    )


def test_an_audit_event_takes_three_product_files(copy: Copy) -> None:
    copy.insert(
        "proxy/audit/events.py",
        '''
        @_event(SUMMARY)
        def own_response(*, method: str, response_bytes: int) -> None:
            """The proxy responded by itself."""


        ''',
        before="EVENTS = tuple(_CLASS_OF)",
    )
    verdicts = "proxy/session/requests/verdicts.py"
    copy.insert(
        verdicts,
        "from proxy.audit import events\nfrom proxy.session.effects import Recorded",
        before="from proxy.metadata.acl import Operation",
    )
    copy.insert(
        verdicts,
        """
        name = ApiKey.name_of(call.api_key)
        steps.append(Recorded(events.own_response(method=name, response_bytes=len(response))))
        """,
        before="        steps.append(SendResponse(response, ",
    )
    copy.insert("spark_audit/schema.py", '"own_response",', before='    *("started", ')

    assert copy.changed() == ["proxy/audit/events.py", verdicts, "spark_audit/schema.py"]
    copy.run(
        """
        import json

        from pyspark.sql.types import StructType

        from proxy.audit import events
        from proxy.audit.record import Author, Encoder
        from proxy.wire import types as t
        from proxy.wire.api_keys import ApiKey
        from spark_audit import schema
        from tests.session.conversation import Conversation

        assert sorted(schema.EVENTS) == sorted(events.EVENTS)

        talk = Conversation()
        talk.asks(ApiKey.DESCRIBE_ACLS, 3, t.DescribeAclsRequest(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        ))
        size_bytes = len(talk.heard_bytes())
        (event,) = talk.told("own_response")
        assert events.class_of(event) == "summary"

        author = Author(role="proxy", proxy_id="p", boot_id="b")
        line = json.loads(Encoder(author).body(event, 1, 2) + b"}")
        assert line["type"] == schema.EVENT_TYPE_PREFIX + "own_response", line
        assert list(line["data"]) == schema.DATA.names
        record = line["data"]
        assert record["event"] in schema.EVENTS
        assert (record["method"], record["response_bytes"]) == ("DescribeAcls", size_bytes), record
        assert (record["principal"], record["connection_id"]) == ("User:alice", "c0ffee"), record
        """
    )


def test_an_audit_check_takes_two_product_files(copy: Copy) -> None:
    copy.add(
        "spark_audit/reconcile/nights.py",
        '''
        """Logins at night."""

        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        from spark_audit import schema as S
        from spark_audit.reconcile.finding import findings, register, sentence

        register(
            """
        nights: No user logged in at night.
        nights.login (medium): A user logged in at night.
            Ask them why.
        """
        )
        FIRST_HOUR_OF_THE_DAY = 5


        def nights(records: DataFrame) -> DataFrame:
            """Returns one finding per login before five o'clock UTC."""
            hour = F.pmod(F.floor(F.col(S.TIME_MS) / 3_600_000), F.lit(24))
            logins = records.where((F.col(S.EVENT) == "authentication") & (hour < FIRST_HOUR_OF_THE_DAY))
            return findings(
                logins,
                check="nights.login",
                explanation=sentence("{principal} logged in at night"),
                evidence=[*S.RECORD_KEY],
            )
        ''',
    )
    copy.insert(
        "spark_audit/reconcile/__init__.py", "nights                logins at night", before="quarantined "
    )
    reconciliation = "spark_audit/reconcile/reconciliation.py"
    copy.insert(
        reconciliation,
        "from spark_audit.reconcile.nights import nights",
        before="from spark_audit.reconcile.quarantined import quarantined",
    )
    copy.insert(
        reconciliation,
        '"nights",',
        before='    *("sessions", "settings", "offsets"',
    )
    copy.insert(
        reconciliation,
        '"nights": nights(few),',
        before='        "quarantined": quarantined(quarantine),',
    )

    assert copy.changed() == ["spark_audit/reconcile/nights.py", reconciliation]
    copy.run(
        """
        from spark_audit import schema as S
        from spark_audit.reconcile import nights, reconciliation
        from spark_audit.report.coverage import checked

        # A check is an expression of Spark: only tests/spark can run it.
        assert reconciliation.nights is nights.nights
        assert "nights" in reconciliation.reconcile.__code__.co_names
        rows = checked([{"check": "nights.login", "severity": "medium"}], S.SEVERITIES, {})
        (row,) = [row for row in rows if row.findings]
        assert (row.family, row.findings, row.worst) == ("nights", 1, "medium"), row
        """
    )
