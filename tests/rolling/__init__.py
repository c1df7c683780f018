"""Restarts one after the other under load: three brokers, three proxies, a controller, clients of four kinds.

ledger    what a client sent, and what became of it
clients   librdkafka and aiokafka, in threads; kafka_python beside them
java      Kafka's console producer and consumer, as processes
running   the restarts, and what may be found afterwards
"""
