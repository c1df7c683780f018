"""Every client through the proxy and, for comparison, straight at a broker with StandardAuthorizer.

scenarios           what every client does, as data, and what a client has no call for
stage               starts a client's driver at an entrance and gathers what it says
test_clients        both outcomes are the same; `make clients` plays all, every other run a short choice
driver              the frame of the drivers in Python
librdkafka_*        confluent-kafka: its driver, producers and consumers (data), admin calls
kafka_python_*      kafka-python, the same
aiokafka_driver     aiokafka
test_declared_state Terraform's provider and Strimzi's user operator see the same at both
java, go, terraform the Java client, franz-go and Terraform's provider, in their own languages
franz_go            builds the latter, for tests.lab.rolling too
hidden_topics       requests of all APIs that name a topic, and answers with that name taken out
test_hidden_topics  whoever may not see a topic cannot learn that it exists, on any API at any version

session_cells       the matrix of authentication as data: client, mechanism, limit, life of the credential
session_stage       all cells at work at once, until the audit trail has seen enough of each
session_trail       what the audit trail and the metrics count of logins, renewals and kills
session_driver      the frame of the drivers in Python that stay at work; *_sessions are the drivers
test_authentication_matrix  who renews its sessions unnoticed, who is cut and comes back

docs/tested-with.md says what came of it.
"""
