"""The parts of forwarding that wait: sockets, the metadata log, elections.

forwarder           a proxy's connection to the active controller: sends Envelopes, retries until the deadline
forward_spans       trace spans of a forward at both ends
process             connects the parts of a controller
server              the controller's listener: accepts connections, reads frames, drains
connection          one connection of a proxy: SASL, ApiVersions, Envelope
request_processor   decides a forwarded request, commits its records, waits for the replay, responds
one_thread          a thread for what only computes, so that the event loop serves others meanwhile
policy_guard        proves assertions about the policy before a change of ACLs is made
duplicate_forwards  the last forwards: what the log has of them, and this controller's responses
mutations           sends requests about topics within the client's controller_mutation_rate, and its page
broker              the controller's own requests to a broker
log                 the metadata log: a one-partition Kafka topic behind a transactional producer
election            which controller is active, its term, and what other clients do to the election
group               requests to the coordinator of the election group
aiokafka_hooks      changes to aiokafka, which the log's producer is
metrics             Prometheus metrics of the controller and of the forwarder
"""
