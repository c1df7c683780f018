"""The parts of forwarding that wait: sockets, the metadata log, elections.

forwarder          a proxy's way to the active controller: finds it, sends Envelopes, retries
forward_spans      trace spans of a forward at both ends
process            the parts of a controller, connected
server             the controller's listener: frames, SASL, Envelope
connection         one connection of a proxy
own_responses      responses of the controller to requests that it does not carry out
writer             one request after another: decide, commit, wait for the replay, respond
answered           what this controller has responded to a forward that comes again
carried_out        what the log already has of a forward that comes again
mutations          requests about topics, within the client's controller_mutation_rate
broker             the controller's own requests to a broker
log                the metadata log: a one-partition Kafka topic behind a transactional producer
leader             claims the log when elected, and gives it up
election           which controller is active: the member that the group has chosen
group              requests to the coordinator of the election's group
disturbances       what others do to the controller at the broker, as log line and metric
renewed_logins     logins of aiokafka's connections, renewed
aiokafka_lines     log lines of aiokafka
aiokafka_shutdown  ends an aiokafka producer and everything that it has begun
metrics            the controller's metrics
mutation_page      /quotas of a controller: who has used what of controller_mutation_rate
"""
