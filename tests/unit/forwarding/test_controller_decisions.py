"""The controller's gate: CLUSTER_ACTION, the forwarded principal's rights, the part that a broker is sent."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome, SendToBroker
from forwarding.controller.controller import CONTROLLER_APIS, Controller
from forwarding.envelope import AUTHORIZER_NOT_READY, ForwardedRequest, RejectedEnvelope
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, AllowAll, Decision, RequestContext
from proxy.security.principal import ANONYMOUS, Principal, deserialize
from proxy.session.apis.table import FORWARDED, TABLE
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.test_every_version import legible
from tests.support.acl_filters import acl_filter
from tests.support.controllers import acls_request
from tests.support.decisions import ADMIN, ALICE, NOW_MS, PROXY, allowed, controller, decided, envelope_of
from tests.support.images import acl_record, image_of
from tests.support.wire_messages import MessageFiller


@pytest.mark.spec("E4", "E6")
def test_a_sender_without_cluster_action_is_refused_and_the_denial_recorded() -> None:
    envelope = envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest(), ADMIN)

    refused, events = controller("User:admin").open(envelope, PROXY, MetadataImage.EMPTY)

    assert refused == RejectedEnvelope(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Principal User:proxy-1 does not have required CLUSTER_ACTION for envelope",
    )
    assert [(e.event, e.operation, e.granted, e.rule) for e in events] == [
        ("authorization", "CLUSTER_ACTION", False, "default.deny")
    ]


@pytest.mark.spec("E4")
def test_an_acl_for_cluster_action_lets_a_proxy_forward() -> None:
    image = image_of(
        acl_record(
            1,
            "kafka-cluster",
            ResourceType.CLUSTER,
            principal="User:proxy-1",
            operation=Operation.CLUSTER_ACTION,
        )
    )

    opened, _ = controller("").open(envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest()), PROXY, image)

    assert isinstance(opened, ForwardedRequest)


@pytest.mark.spec("S4", "S9")
def test_before_the_log_is_loaded_a_proxy_that_is_no_super_user_is_told_to_wait() -> None:
    opened, _ = controller("User:admin").open(
        envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest()), PROXY, None
    )

    assert isinstance(opened, RejectedEnvelope)
    assert opened.error_code == AUTHORIZER_NOT_READY


class Watching(AllowAll):
    """Remembers the contexts it was asked in."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        self.contexts.append(context)
        return super().authorize(context, actions)


@pytest.mark.spec("E4", "A3")
def test_an_authorizer_sees_who_forwarded_the_request() -> None:
    watching = Watching()
    served = Controller(watching, deserialize, lambda: bytes(16))
    forwarded, _ = served.open(
        envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest()), PROXY, MetadataImage.EMPTY
    )
    assert isinstance(forwarded, ForwardedRequest)

    served.decide(forwarded, PROXY, MetadataImage.EMPTY, {}, NOW_MS)

    outer, inner = watching.contexts
    assert (outer.principal, outer.forwarding_principal) == (PROXY.principal, None)
    assert (inner.principal, inner.forwarding_principal, inner.host, inner.client_id) == (
        ALICE,
        PROXY.principal,
        "10.0.0.1",
        "cli",
    )


CLUSTER_RIGHTS: dict[int, Operation] = {
    key: right for key in FORWARDED if (right := TABLE[key].cluster_right) is not None
}

REQUESTS: dict[int, Any] = {
    ApiKey.CREATE_ACLS: acls_request("t"),
    ApiKey.DELETE_ACLS: types.DeleteAclsRequest(filters=[acl_filter()]),
    ApiKey.ALTER_CLIENT_QUOTAS: types.AlterClientQuotasRequest(
        entries=[types.AlterClientQuotasRequest.EntryData()]
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: types.AlterUserScramCredentialsRequest(
        deletions=[types.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="x", mechanism=1)]
    ),
    ApiKey.ELECT_LEADERS: types.ElectLeadersRequest(),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: types.AlterPartitionReassignmentsRequest(),
    ApiKey.UPDATE_FEATURES: types.UpdateFeaturesRequest(),
}


def first_error(response: Any) -> int:
    for name in ("results", "filter_results", "entries"):
        for part in getattr(response, name, None) or []:
            return int(part.error_code)
    return int(response.error_code)


@pytest.mark.spec("E2", "E4")
@pytest.mark.parametrize("api_key", sorted(CLUSTER_RIGHTS), ids=ApiKey.name_of)
def test_a_principal_without_the_right_on_the_cluster_is_denied(api_key: int) -> None:
    verdict = decided(api_key, REQUESTS[api_key], image=allowed((Operation.DESCRIBE, "kafka-cluster")))

    assert isinstance(verdict.decision, ControllerOutcome)
    assert verdict.decision.records == ()
    assert first_error(verdict.decision.response) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(e.principal, e.forwarding_principal, e.granted) for e in verdict.events] == [
        ("User:alice", "User:proxy-1", False)
    ]


@pytest.mark.spec("E2", "E4")
@pytest.mark.parametrize("api_key", sorted(CLUSTER_RIGHTS), ids=ApiKey.name_of)
def test_the_right_on_the_cluster_opens_the_api(api_key: int) -> None:
    right = CLUSTER_RIGHTS[api_key]

    verdict = decided(api_key, REQUESTS[api_key], image=allowed((right, "kafka-cluster")))

    if isinstance(verdict.decision, ControllerOutcome):
        assert first_error(verdict.decision.response) != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        assert verdict.decision.request == REQUESTS[api_key]
    assert [(e.operation, e.granted, e.rule) for e in verdict.events] == [(right.name, True, "acl")]


@pytest.mark.spec("A7", "E2")
def test_every_api_that_is_forwarded_is_served() -> None:
    assert CONTROLLER_APIS.keys() <= FORWARDED
    assert FORWARDED - CONTROLLER_APIS.keys() - CLUSTER_RIGHTS.keys() == set()


@pytest.mark.spec("A7", "E2")
def test_a_forwarded_api_that_names_no_right_and_has_no_code_of_its_own_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(CONTROLLER_APIS, ApiKey.CREATE_PARTITIONS)
    topic = types.CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=9)

    verdict = decided(
        ApiKey.CREATE_PARTITIONS, types.CreatePartitionsRequest(topics=[topic], timeout_ms=5), ADMIN
    )

    assert isinstance(verdict.decision, ControllerOutcome)
    (part,) = verdict.decision.response.results
    assert (part.error_code, part.error_message) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "CreatePartitions is not served by this controller.",
    )


@pytest.mark.spec("E4", "E10")
@pytest.mark.parametrize("api_key", sorted(FORWARDED), ids=ApiKey.name_of)
def test_a_request_of_the_sending_proxys_own_principal_is_rejected(api_key: int) -> None:
    version = codecs.request_versions(api_key)[-1]
    filler = MessageFiller(Random(api_key), tame=True)
    request = legible(filler.message(request_schema(api_key).name, version))

    verdict = decided(api_key, request, PROXY.principal)

    assert isinstance(verdict.decision, ControllerOutcome)
    assert verdict.decision.records == ()
    (event,) = verdict.events
    assert (event.event, event.principal, event.forwarding_principal, event.error_code) == (
        "request_refused",
        "User:proxy-1",
        "User:proxy-1",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
    assert event.message == "a client of the proxy User:proxy-1 has logged in with the proxy's own principal"


@pytest.mark.spec("E4", "E13")
def test_a_decision_is_recorded_under_the_id_of_the_forward() -> None:
    verdict = decided(ApiKey.CREATE_ACLS, acls_request("t"))

    assert [
        (event.event, event.forward_id) for event in verdict.events if event.event == "authorization"
    ] == [("authorization", "p/b/0")]


@pytest.mark.spec("E4")
def test_where_nobody_logs_in_proxies_and_clients_have_one_name() -> None:
    served = controller(super_users=f"{ANONYMOUS}")
    nobody = replace(PROXY, principal=ANONYMOUS)
    forwarded, _ = served.open(
        envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest(), ANONYMOUS), nobody, MetadataImage.EMPTY
    )
    assert isinstance(forwarded, ForwardedRequest)

    verdict = served.decide(forwarded, nobody, MetadataImage.EMPTY, {}, NOW_MS)

    assert [event.rule for event in verdict.events] == ["super.users"]


@pytest.mark.spec("A7", "E12")
@pytest.mark.parametrize("principal", [ADMIN, ALICE], ids=str)
def test_nobody_configures_the_election_of_the_controllers(principal: Principal) -> None:
    resource, config = (
        types.IncrementalAlterConfigsRequest.AlterConfigsResource,
        types.IncrementalAlterConfigsRequest.AlterableConfig,
    )
    change = config(name="consumer.session.timeout.ms", config_operation=0, value="45000")
    groups = [
        resource(resource_type=32, resource_name=name, configs=[change])
        for name in ("team", "penstock-controller-election")
    ]
    everything = image_of(acl_record(1, "*", ResourceType.GROUP, operation=Operation.ALL))

    verdict = decided(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        types.IncrementalAlterConfigsRequest(resources=groups),
        principal,
        image=everything,
    )

    assert isinstance(verdict.decision, SendToBroker)
    assert [sent.resource_name for sent in verdict.decision.request.resources] == ["team"]
    assert [event.rule for event in verdict.events if event.granted is False] == ["protected.group"]


@pytest.mark.spec("O9", "D2")
def test_other_super_users_decide_from_the_next_request_and_the_records_name_the_settings() -> None:
    served, envelope = controller(), envelope_of(ApiKey.CREATE_ACLS, types.CreateAclsRequest(), ADMIN)
    forwarded, _ = served.open(envelope, PROXY, MetadataImage.EMPTY)
    assert isinstance(forwarded, ForwardedRequest)

    def records() -> list[tuple[str | None, int | None]]:
        verdict = served.decide(forwarded, PROXY, MetadataImage.EMPTY, {}, NOW_MS)
        return [(event.rule, event.settings_generation) for event in verdict.events]

    assert records() == [("super.users", None)]
    served.decide_by(controller("User:proxy-1")._current.authorizer, 1)
    assert records() == [("default.deny", 1)]
    served.decide_by(controller("User:admin")._current.authorizer, 2)
    refused, events = served.open(envelope, PROXY, MetadataImage.EMPTY)
    assert isinstance(refused, RejectedEnvelope)
    assert [(event.rule, event.settings_generation) for event in events] == [("default.deny", 2)]
