"""The checks: tables in, findings (spark_audit.schema.FINDING) out. Touches no storage.

reconciliation        runs all checks over a trail
past                  what the service knows of days whose files have not changed since its run before
finding               the kinds of findings, and rows of table `findings` from a check's columns

gaps                  (a) missing, repeated and reordered records
clocks                clocks that are off
decisions             (b) evaluates every decision again; topic owners
behind                (b) processes that decided by an older log than others had
forwarded             (c) proxy's and controller's records of forwarded requests
quotas                (d) what each quota-id used, and the quotas that records name
sessions              (e) traffic after the end of a session
changes               (f) unexplained changes in the metadata log
unsigned              records of the metadata log that no controller has signed
log_signatures        verifies the log, with the code of the proxies
chain                 (g) the hash chain of each boot, and how boots follow each other
checkpoints           what processes have signed of their trails and states, and witnesses outside
cosignatures          what witnesses have signed of the checkpoints of others
offsets               (h) the places of records in Kafka, and times that do not agree with them
settings              settings that records name
quarantined           records that could not be decoded
topics                the tables against the topics, for `verify`
named_objects         (c) the objects that records name, against the log and each other

kraft_changes         (c) and (f) with Kafka's own controller
kraft_claims          the changes that proxies claim, and those that brokers make by themselves
kraft_records         the records of Kafka's own log as changes
kraft_matching        which change belongs to which claim
kraft_states          what the log says is in effect, at the offsets that processes have signed
"""
