"""The parts of forwarding that wait: sockets, the metadata log, elections.

forwarder          a proxy's connection to the active controller: sends Envelopes, retries until the deadline
forward_spans      trace spans of a forward at both ends
process            connects the parts of a controller
server             the controller's listener: accepts connections, reads frames, drains
connection         one connection of a proxy: SASL, ApiVersions, Envelope
request_processor  decides a forwarded request, commits its records, waits for the replay, responds
response_cache     this controller's responses to the last forwards
committed_forwards  what the log has of the last forwards
mutations          sends requests about topics to a broker, within the client's controller_mutation_rate
broker             the controller's own requests to a broker
log                the metadata log: a one-partition Kafka topic behind a transactional producer
leader             claims the log when this controller is elected, and releases it
election           which controller is active
group              requests to the coordinator of the election group
disturbances       reports what other clients do to the election or to the claim of the log
aiokafka_hooks     changes to aiokafka, which the log's producer is
metrics            Prometheus metrics of the controller and of the forwarder
mutation_page      the page /quotas of a controller
"""
