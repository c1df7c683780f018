"""What all tests share: real Kafka and Penstock processes as fixtures (tests.support)."""

pytest_plugins = ["tests.support.kafka_fixtures", "tests.support.gates", "tests.support.cluster_admin"]
