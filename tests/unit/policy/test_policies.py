"""What a policy knows of the requests there can be."""

import pytest

from proxy.metadata.acl import OPERATIONS_ON
from spark_audit.proposal import SUPPORTED, constant

pytestmark = pytest.mark.spec("D18")


def test_the_operations_of_requests_are_those_that_acls_of_a_proposal_may_have() -> None:
    proposed = {kind: {constant(word) for word in words.split()} for kind, words in SUPPORTED.items()}

    assert {
        kind.name: {each.name for each in operations} for kind, operations in OPERATIONS_ON.items()
    } == proposed
