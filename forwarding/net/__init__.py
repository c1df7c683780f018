"""Everything of forwarding that waits.

forwarder    a proxy's way to the active controller: finds it, sends Envelopes, retries until the deadline
server       the controller's listener: frames, SASL, Envelope
writer       one request after another: decide, commit, wait for the replay, answer
answered, carried_out   a forward that comes again: what this controller answered, what the log has of it
log          the metadata log: a one-partition Kafka topic behind a transactional producer
election, group, disturbances   which controller is active, and what others do to that
renewed_logins, aiokafka_lines   what is hooked into aiokafka, which the log's producer is
broker       the controller's own requests to a broker
"""
