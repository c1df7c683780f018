"""The `quota:` part: what it takes, and what of it is told to whoever checks the trail."""

import pytest
from pydantic import ValidationError

from forwarding.config import MutationQuota
from proxy.config.proxy import Quota


@pytest.mark.spec("Q2", "D5")
def test_what_limits_depend_on_besides_the_log_is_told_at_the_start() -> None:
    assert Quota().recorded_settings() == {
        "quota.mode": "enforce",
        "quota.excluded.principals": "",
        "quota.window.num": "11",
        "quota.window.size.seconds": "1",
    }
    quota = Quota.model_validate(
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
    ],
)
def test_a_setting_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Quota.model_validate(wrong)


@pytest.mark.spec("Q12", "D5")
def test_a_controller_has_the_same_rules_for_its_own_quota() -> None:
    assert MutationQuota().recorded_rules() == {"quota.mode": "enforce", "quota.excluded.principals": ""}
    quota = MutationQuota.model_validate(
        {"mode": "observe", "excluded.principals": "User:a", "controller.quota.window.num": 3}
    )
    assert (quota.enforced, quota.excluded, quota.controller_quota_window_num) == (False, ("User:a",), 3)
    with pytest.raises(ValidationError):
        MutationQuota.model_validate({"excluded.principals": "alice"})
