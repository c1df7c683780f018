"""The network part of forwarding: the proxy's forwarder, and the controller's listener, log and election.

forwarder a proxy's connection to the active controller: sends Envelopes, retries until the deadline server
the controller's listener: accepts connections, reads frames, drains connection one connection of a proxy:
SASL, ApiVersions, Envelope request_processor decides a forwarded request, commits its records, waits for the
replay, responds process connects the parts of a controller response_cache committed_forwards responses to
repeated forwards: this controller's, and those in the log mutations mutation_page charges
controller_mutation_rate; the page /quotas log the metadata log: a one-partition Kafka topic behind a
transactional producer leader claims the log when this controller is elected, and releases it election group
disturbances elects the active controller; reports what other clients do to the election aiokafka_hooks
changes to aiokafka, which the log's producer is broker the controller's own requests to a broker metrics
forward_spans Prometheus metrics; trace spans of a forward at both ends
"""
