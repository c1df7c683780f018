"""The `quota:` part: what it takes, and what of it is told to whoever checks the trail."""

import pytest
from pydantic import ValidationError

from forwarding.config import MutationQuotaConfig
from proxy.config.proxy import QuotaConfig
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity


@pytest.mark.spec("Q2", "D5")
def test_what_limits_depend_on_besides_the_log_is_told_at_the_start() -> None:
    assert QuotaConfig().recorded_settings() == {
        "quota.mode": "enforce",
        "quota.excluded.principals": "",
        "quota.window.num": "11",
        "quota.window.size.seconds": "1",
    }
    quota = QuotaConfig.model_validate(
        {
            "mode": "observe",
            "excluded.principals": "User:a; User:CN=b,O=c;",
            "producer.default": 1000,
            "consumer.default": 0.5,
        }
    )
    assert quota.excluded == ("User:a", "User:CN=b,O=c")
    assert quota.recorded_settings() == {
        "quota.mode": "observe",
        "quota.excluded.principals": "User:a;User:CN=b,O=c",
        "quota.window.num": "11",
        "quota.window.size.seconds": "1",
        "quota.producer.default": "1000.0",
        "quota.consumer.default": "0.5",
    }


@pytest.mark.spec("Q11")
@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "watch"},
        {"excluded.principals": "alice"},
        {"producer.default": 0},
        {"consumer.default": -1},
        {"scope": "everywhere"},
        {"scope.by.quota": {"controller_mutation_rate": "cluster"}},
        {"scope.by.quota": {"producer_byte_rate": "broker"}},
        {"scope.by.entity": {"alice": "cluster"}},
        {"scope.by.entity": {"clients/app/users/alice": "cluster"}},
        {"cluster.proxies": 0},
        {"cluster.topic": ""},
    ],
)
def test_a_setting_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        QuotaConfig.model_validate(wrong)


@pytest.mark.spec("Q12", "D5")
def test_a_controller_has_the_same_rules_for_its_own_quota() -> None:
    assert MutationQuotaConfig().recorded_rules() == {
        "quota.mode": "enforce",
        "quota.excluded.principals": "",
    }
    quota = MutationQuotaConfig.model_validate(
        {"mode": "observe", "excluded.principals": "User:a", "controller.quota.window.num": 3}
    )
    assert (quota.enforced, quota.excluded, quota.controller_quota_window_num) == (False, ("User:a",), 3)
    with pytest.raises(ValidationError):
        MutationQuotaConfig.model_validate({"excluded.principals": "alice"})


@pytest.mark.spec("Q13")
def test_a_quota_has_the_scope_of_its_entity_else_of_its_key_else_the_default() -> None:
    alice, bob = QuotaEntity(user="alice"), QuotaEntity(user="bob")
    anybody, blank = QuotaEntity(user=DEFAULT, client_id="app"), QuotaEntity(ip="10.0.0.1")
    quota = QuotaConfig.model_validate(
        {
            "scope": "cluster",
            "scope.by.quota": {"request_percentage": "proxy"},
            "scope.by.entity": {"users/alice": "proxy", "users/<default>/clients/app": "proxy"},
        }
    )

    def cluster(key: str, entity: QuotaEntity | None) -> bool:
        return quota.scopes.is_cluster(key, entity)

    assert not QuotaConfig().scopes.any_cluster
    assert not QuotaConfig().scopes.is_cluster("producer_byte_rate", bob)
    assert quota.scopes.any_cluster
    assert [cluster("producer_byte_rate", each) for each in (alice, bob, anybody, blank, None)] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert not cluster("request_percentage", bob)
    assert QuotaConfig.model_validate({"scope.by.entity": {"users/bob": "cluster"}}).scopes.is_cluster(
        "request_percentage", bob
    )


@pytest.mark.spec("Q13", "D5")
def test_the_scopes_are_recorded_where_a_quota_holds_for_the_cluster() -> None:
    quota = QuotaConfig.model_validate(
        {
            "scope.by.quota": {"producer_byte_rate": "cluster"},
            "scope.by.entity": {"users/b%3Bc": "cluster", "users/alice": "proxy"},
        }
    )
    assert quota.recorded_settings()["quota.scope"] == (
        "proxy;producer_byte_rate=cluster;users/alice=proxy;users/b%3Bc=cluster"
    )
