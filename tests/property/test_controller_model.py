"""Random admin operations, crashes and elections against dictionaries: what is in force was acknowledged.

Three controllers of the real code share a topic (tests.support.fake_log). Whoever asks does as a proxy does:
with one forward id until there is an answer. PENSTOCK_MODEL_EXAMPLES=2000 makes the long run (`make model`).
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from forwarding.net import request_processor
from proxy.metadata.image import MetadataImage
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import envelope_of, enveloped_response
from tests.support.fake_log import Crashed, FakeTopic, Fault
from tests.support.model_controllers import SENDER, Follower, Node

EXAMPLES = int(os.environ.get("PENSTOCK_MODEL_EXAMPLES", "30"))
STEPS = 40
CONTROLLERS = 3
ATTEMPTS = 8
TOPIC = 2
LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
WHO = Principal("User", "admin")
REGAIN_TIMEOUT_MS = 20
"""Nobody claims the log again by itself here: a request that waited for that would only take time."""


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_processor, "REGAIN_TIMEOUT_MS", REGAIN_TIMEOUT_MS)


Binding = tuple[str, int, str, int, int]
"""Name, pattern type, principal, operation, permission type; all are on topics, from any host."""

bindings = st.tuples(
    st.sampled_from(["a", "ab", "abc", "*"]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob"]),
    st.sampled_from([3, 4]),
    st.sampled_from([2, 3]),
)
filters = st.tuples(
    st.sampled_from([None, "a", "ab", "abc"]),
    st.sampled_from([ANY, MATCH, LITERAL, PREFIXED]),
    st.sampled_from([None, "User:alice"]),
    st.sampled_from([1, 3]),
)
entities = st.sampled_from(
    [(("user", "alice"),), (("user", None),), (("client-id", "c"),), (("user", "alice"), ("client-id", "c"))]
)
limits = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]),
    st.sampled_from([None, 1.0, 2.0]),
    min_size=1,
)
users = st.sampled_from(["alice", "bob"])
mechanisms = st.sampled_from([1, 2])
faults = st.sampled_from([None, None, None, *Fault])


@dataclass
class Agreed:
    """What was acknowledged, in plain dictionaries."""

    acls: set[Binding] = field(default_factory=set)
    limits: dict[Any, dict[str, float]] = field(default_factory=dict)
    credentials: dict[tuple[str, int], int] = field(default_factory=dict)
    """To the number of iterations."""
    tokens: dict[str, int] = field(default_factory=dict)
    """To when they expire."""

    def frozen(self) -> Any:
        return (
            frozenset(self.acls),
            {entity: dict(keys) for entity, keys in self.limits.items() if keys},
            dict(self.credentials),
            dict(self.tokens),
        )


def content(image: MetadataImage) -> Any:
    """The same of an image."""
    quotas = {tuple(entity.parts.items()): dict(keys) for entity, keys in image.quotas.limits.items()}
    return (
        frozenset(
            (
                acl.resource_name,
                int(acl.pattern_type),
                acl.principal,
                int(acl.operation),
                int(acl.permission_type),
            )
            for acl in image.acls.by_id.values()
        ),
        quotas,
        {(user, int(m)): one.iterations for (m, user), one in image.scram.credentials.items()},
        {one.token_id: one.expiry_timestamp_ms for one in image.tokens.by_id.values()},
    )


def selected(acls: Iterable[Binding], wanted: Any) -> set[Binding]:
    """The naive reading of a filter."""
    name, pattern, principal, operation = wanted

    def matches(acl: Binding) -> bool:
        if pattern == MATCH and name is not None:
            covers = acl[0] in (name, "*") if acl[1] == LITERAL else name.startswith(acl[0])
        else:
            covers = name in (None, acl[0]) and pattern in (ANY, MATCH, acl[1])
        return covers and principal in (None, acl[2]) and operation in (1, acl[3])

    return {acl for acl in acls if matches(acl)}


class Controllers(RuleBasedStateMachine):
    """What Hypothesis drives."""

    tokens = Bundle("tokens")

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ids = itertools.count(1)
        self.forwards = itertools.count()
        self.now_ms = 1_000_000
        self.topic = FakeTopic()
        self.agreed = Agreed()
        self.acknowledged: list[str] = []
        self.history = {-1: self.agreed.frozen()}
        self.nodes = [self._node() for _ in range(CONTROLLERS)]
        self.proxy = Follower(self.topic)
        self.behind = False
        self.elected = 0
        self._elect(0)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.loop.close()
        written = Counter(self.topic.forwards)
        assert [forward for forward, times in written.items() if times > 1] == []
        assert set(written) <= set(self.acknowledged)

    # Changes of what is agreed.

    @rule(wanted=st.lists(bindings, min_size=1, max_size=3), fault=faults, data=st.data())
    def create_acls(self, wanted: list[Binding], fault: Fault | None, data: Any) -> None:
        request = types.CreateAclsRequest
        creations = [
            request.AclCreation(
                resource_type=TOPIC,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=permission,
            )
            for name, pattern, principal, operation, permission in wanted
        ]
        answer = self._ask(ApiKey.CREATE_ACLS, request(creations=creations), fault, data)
        assert [result.error_code for result in answer.results] == [0] * len(wanted)
        self.agreed.acls |= set(wanted)

    @rule(wanted=st.lists(filters, min_size=1, max_size=2), fault=faults, data=st.data())
    def delete_acls(self, wanted: list[Any], fault: Fault | None, data: Any) -> None:
        request = types.DeleteAclsRequest
        asked = [
            request.DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=principal,
                host_filter=None,
                operation=operation,
                permission_type=1,
            )
            for name, pattern, principal, operation in wanted
        ]
        answer = self._ask(ApiKey.DELETE_ACLS, request(filters=asked), fault, data)
        told = [
            {
                (acl.resource_name, acl.pattern_type, acl.principal, acl.operation, acl.permission_type)
                for acl in result.matching_acls
            }
            for result in answer.filter_results
        ]
        expected = [selected(self.agreed.acls, each) for each in wanted]
        assert told == expected
        self.agreed.acls -= set().union(*expected)

    @rule(entity=entities, changes=limits, fault=faults, data=st.data())
    def alter_quotas(self, entity: Any, changes: dict[str, Any], fault: Fault | None, data: Any) -> None:
        request = types.AlterClientQuotasRequest
        parts = [request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        ops = [
            request.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ]
        message = request(entries=[request.EntryData(entity=parts, ops=ops)])
        answer = self._ask(ApiKey.ALTER_CLIENT_QUOTAS, message, fault, data)
        assert [entry.error_code for entry in answer.entries] == [0]
        keys = self.agreed.limits.setdefault(entity, {})
        keys |= {key: value for key, value in changes.items() if value is not None}
        for key in (key for key, value in changes.items() if value is None):
            keys.pop(key, None)

    @rule(user=users, mechanism=mechanisms, iterations=st.integers(4096, 4099), fault=faults, data=st.data())
    def set_credential(
        self, user: str, mechanism: int, iterations: int, fault: Fault | None, data: Any
    ) -> None:
        request = types.AlterUserScramCredentialsRequest
        upsertion = request.ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism,
            iterations=iterations,
            salt=b"salt",
            salted_password=bytes(32 * mechanism),
        )
        answer = self._ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request(upsertions=[upsertion]), fault, data)
        assert [result.error_code for result in answer.results] == [0]
        self.agreed.credentials[user, mechanism] = iterations

    @rule(user=users, mechanism=mechanisms, fault=faults, data=st.data())
    def remove_credential(self, user: str, mechanism: int, fault: Fault | None, data: Any) -> None:
        request = types.AlterUserScramCredentialsRequest
        deletion = request.ScramCredentialDeletion(name=user, mechanism=mechanism)
        answer = self._ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request(deletions=[deletion]), fault, data)
        known = self.agreed.credentials.pop((user, mechanism), None) is not None
        expected = ErrorCode.NONE if known else ErrorCode.RESOURCE_NOT_FOUND
        assert [result.error_code for result in answer.results] == [expected]

    @rule(target=tokens, fault=faults, data=st.data())
    def create_token(self, fault: Fault | None, data: Any) -> tuple[str, bytes]:
        request = types.CreateDelegationTokenRequest(max_lifetime_ms=-1)
        answer = self._ask(ApiKey.CREATE_DELEGATION_TOKEN, request, fault, data)
        assert answer.error_code == 0
        self.agreed.tokens[answer.token_id] = answer.expiry_timestamp_ms
        return answer.token_id, bytes(answer.hmac)

    @rule(token=tokens, fault=faults, data=st.data())
    def renew_token(self, token: tuple[str, bytes], fault: Fault | None, data: Any) -> None:
        request = types.RenewDelegationTokenRequest(hmac=token[1], renew_period_ms=500_000)
        answer = self._ask(ApiKey.RENEW_DELEGATION_TOKEN, request, fault, data)
        assert answer.error_code == 0
        self.agreed.tokens[token[0]] = answer.expiry_timestamp_ms

    @rule(token=consumes(tokens), fault=faults, data=st.data())
    def expire_token(self, token: tuple[str, bytes], fault: Fault | None, data: Any) -> None:
        request = types.ExpireDelegationTokenRequest(hmac=token[1], expiry_time_period_ms=-1)
        answer = self._ask(ApiKey.EXPIRE_DELEGATION_TOKEN, request, fault, data)
        assert answer.error_code == 0
        del self.agreed.tokens[token[0]]

    # What happens to controllers, the log and those who follow it.

    @rule(winner=st.integers(0, CONTROLLERS - 1))
    def elect(self, winner: int) -> None:
        """The one before goes on as if nothing had happened: it is frozen, or cut off from the group."""
        self._elect(winner)

    @rule(number=st.integers(0, CONTROLLERS - 1))
    def die(self, number: int) -> None:
        self.nodes[number] = self._node()
        if number == self.elected:
            self._elect((number + 1) % CONTROLLERS)

    @rule(batches=st.integers(1, 6))
    def the_proxy_follows(self, batches: int) -> None:
        if self.behind:
            self.proxy.catch_up()
            self.behind = False
        else:
            self.proxy.follow(batches)

    @rule()
    def the_proxy_reads_again(self) -> None:
        shown = len(self.proxy.shown)
        self.proxy.read_again()
        self.behind = False
        assert len(self.proxy.shown) - shown == 1, "one image, and whole"

    @rule()
    def the_log_is_compacted(self) -> None:
        self.topic.compact()
        # Who stands in the middle of it finds records missing: it takes the rest in one piece.
        self.behind = True

    @invariant()
    def what_is_in_force_is_what_was_acknowledged(self) -> None:
        if not hasattr(self, "nodes"):
            return
        self.history[self.topic.end - 1] = self.agreed.frozen()
        assert content(self.nodes[self.elected].image) == self.agreed.frozen()
        last = max(offset for offset in self.history if offset <= self.proxy.image.offset)
        assert content(self.proxy.image) == self.history[last]

    def _node(self) -> Node:
        return Node(self.topic, lambda: next(self.ids).to_bytes(16, "big"), lambda: self.now_ms)

    def _elect(self, winner: int) -> None:
        self.elected = winner
        self.loop.run_until_complete(self.nodes[winner].processor.activate())

    def _ask(self, api_key: int, request: Any, fault: Fault | None, data: Any) -> Any:
        """The answer, asked for as a proxy does: first of whoever was the active one, with one forward id."""
        self.now_ms += 1
        forward_id = f"proxy-1/boot/{next(self.forwards)}"
        self.acknowledged.append(forward_id)
        envelope = envelope_of(api_key, request, WHO, forward_id=forward_id)
        asked = data.draw(st.integers(0, CONTROLLERS - 1))
        self.nodes[asked].log.fault = fault
        for _ in range(ATTEMPTS):
            answer = self._attempt(asked, envelope)
            if answer is not None:
                return enveloped_response(api_key, answer)
            asked = data.draw(st.integers(0, CONTROLLERS - 1))
            self._elect(asked)
        raise AssertionError("no answer")

    def _attempt(self, asked: int, envelope: Any) -> Any:
        """The EnvelopeResponse; None: there was none, or it says that somebody else has to be asked."""
        node = self.nodes[asked]
        # One that was replaced follows the log as everybody does, and may still think that it may write.
        node.catch_up()
        try:
            response = self.loop.run_until_complete(node.processor.serve(envelope, 1, SENDER))
        except Crashed:
            self.nodes[asked] = self._node()
            return None
        node.log.fault = None
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            return None
        assert response.error_code == 0
        return response


TestControllers = Controllers.TestCase
TestControllers.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
TestControllers = pytest.mark.spec("E12", "E13", "S2", "S5")(TestControllers)
