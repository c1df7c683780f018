"""The controller's decisions: a request and the metadata image in, records and a response out.

controller   the CLUSTER_ACTION check, the forwarded principal's rights, the right file for each API
access       the forwarded principal's rights at one image, each decision kept as an audit event
acls quotas scram tokens     what goes into the metadata log
topics configs cluster     what goes on to a broker, once the denied parts are cut out
policy topic_rules     an operator's own rules for topics and configs
topic_owner topic_records gone_topics     owners and ACLs of topics, which the log keeps
outcome      what a decision comes to           record_keys   under which key a record is compacted
repeated     a forward whose change is in the log already
refusal      the answer that gives every part of a request the same error
"""
