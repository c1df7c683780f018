"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support)."""

from hypothesis import settings

# How long an example takes is the machine's affair, and no property of what is tested.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

pytest_plugins = ["tests.support.kafka_fixtures", "tests.support.gates", "tests.support.cluster_admin"]
