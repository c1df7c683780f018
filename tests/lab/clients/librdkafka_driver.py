"""The scenarios in librdkafka. Started by tests.lab.clients.stage."""

import confluent_kafka

from tests.lab.clients import librdkafka_admin, librdkafka_data
from tests.lab.clients.driver import serve

if __name__ == "__main__":
    version = f"{confluent_kafka.libversion()[0]} (confluent-kafka {confluent_kafka.__version__})"
    serve("librdkafka", version, {**librdkafka_data.FUNCTIONS, **librdkafka_admin.FUNCTIONS})
