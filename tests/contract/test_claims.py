"""What the jobs expect each request to write is what the controller's table says."""

import pytest

from forwarding.controller.controller import CONTROLLER_APIS
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from spark_audit.trail.claims import WRITTEN_BY


@pytest.mark.spec("D5")
def test_each_forwarded_api_may_write_what_its_row_says() -> None:
    of_rows = {
        ApiKey.name_of(key): {getattr(types, name).api_key for name in api.writes}
        for key, api in CONTROLLER_APIS.items()
        if api.writes
    }

    expected = {method: set(kinds) for method, kinds in WRITTEN_BY.items() if method != "MetadataLog"}
    assert of_rows == expected
