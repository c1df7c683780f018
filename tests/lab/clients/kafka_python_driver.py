"""The scenarios in kafka-python. Started by tests.lab.clients.stage."""

from tests.lab.clients import kafka_python_admin, kafka_python_data
from tests.lab.clients.driver import serve

if __name__ == "__main__":
    version = kafka_python_data.kafka.__version__
    serve("kafka-python", version, {**kafka_python_data.FUNCTIONS, **kafka_python_admin.FUNCTIONS})
