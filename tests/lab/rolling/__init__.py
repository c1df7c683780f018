"""Restarts one after the other under load: three brokers, three proxies, a controller, clients of five kinds.

ledger    what a client sent, and what became of it
clients   librdkafka and aiokafka, in threads; kafka_python beside them
java      Kafka's console producer and consumer, as processes
franz_go  the same in Go
place     what each of these is given
changing  configurations and certificates that change meanwhile
running   the restarts, and what may be found afterwards
"""
