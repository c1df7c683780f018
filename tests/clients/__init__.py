"""Every client through the proxy and, for comparison, straight at a broker with StandardAuthorizer.

scenarios           what every client does, as data, and what a client has no call for
stage               starts a client's driver at an entrance and gathers what it says
test_clients        both outcomes are the same; `make clients` plays all, every other run a short choice
driver              the frame of the drivers in Python
librdkafka_*        confluent-kafka: its driver, producers and consumers (data), admin calls
kafka_python_*      kafka-python, the same
aiokafka_driver     aiokafka
java, go            the Java client and franz-go, in their own languages
hidden_topics       requests of all APIs that name a topic, and answers with that name taken out
test_hidden_topics  whoever may not see a topic cannot learn that it exists, on any API at any version

docs/clients.md says what came of it.
"""
