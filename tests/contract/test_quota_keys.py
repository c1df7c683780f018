"""The keys of quotas are the same for the processes and for the jobs, which share no code."""

from typing import get_args

import pytest

from forwarding.controller.controller import CONTROLLER_APIS
from proxy.quota.keys import CONTROLLER_MUTATION_RATE, KEYS, ScopedQuota
from proxy.wire.api_keys import ApiKey
from spark_audit import quota_keys


@pytest.mark.spec("Q1", "D5")
def test_the_jobs_know_every_key_and_what_its_use_is_counted_in() -> None:
    assert {key: (row.unit, row.units_of_one) for key, row in KEYS.items()} == quota_keys.UNITS
    assert {key for key, row in KEYS.items() if not row.of_addresses} == set(quota_keys.KEYS)


@pytest.mark.spec("Q13")
def test_each_key_but_the_controllers_can_have_a_scope() -> None:
    assert set(get_args(ScopedQuota)) == set(KEYS) - {CONTROLLER_MUTATION_RATE}


@pytest.mark.spec("Q12", "D5")
def test_requests_are_rejected_from_the_versions_on_that_the_controller_rejects_them() -> None:
    charged = {ApiKey.name_of(key): api.charge for key, api in CONTROLLER_APIS.items()}

    assert {
        name: charge.strict_since for name, charge in charged.items() if charge
    } == quota_keys.STRICT_SINCE
