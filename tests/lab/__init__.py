"""Programs that run real processes: no part of the product, and not in the wheel.

cluster       Kafka brokers, proxies and a controller on loopback: all others stand on it
demo          `make demo`: a story that is played on a cluster
clients       Java, librdkafka, kafka-python, aiokafka and franz-go through the proxy and at a broker
side_by_side  the same requests at a Kafka broker and at Penstock: the harness of all comparisons
differential  random requests at a broker with StandardAuthorizer and at Penstock
chaos         kills and freezes processes at random under load, then compares every counter
soak          the same load without kills, for an hour
what_if       traffic that is tried under a proposal, and played again with the proposal in effect
hostile       attacks on a live proxy beside a normal user
rolling       restarts of proxies, controller and brokers under clients
mutants       changes one expression of the product at a time: does a test fail?
bench         the cost of requests, decisions, quotas, records and reconciliation
pictures      draws the dashboard over a live run
"""
