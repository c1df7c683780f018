"""Everything of forwarding that waits.

forwarder    a proxy's way to the active controller: finds it, sends Envelopes, retries until the deadline
server       the controller's listener: frames, SASL, Envelope
writer       one request after another: decide, commit, wait for the replay, answer
connection, own_responses   one connection of a proxy; what the controller says where it carries out nothing
process      the parts of a controller, connected
forward_spans   trace spans of a forward at both ends
metrics, mutation_page   what operators see
mutations    controller_mutation_rate, charged where the work is done
answered, carried_out   a forward that comes again: what this controller answered, what the log has of it
log          the metadata log: a one-partition Kafka topic behind a transactional producer
leader       claims the log when elected, and gives it up
election, group, disturbances   which controller is active, and what others do to that
renewed_logins, aiokafka_lines   what is hooked into aiokafka, which the log's producer is
broker       the controller's own requests to a broker
"""
