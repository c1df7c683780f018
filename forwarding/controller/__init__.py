"""The controller's decisions: a request and the metadata image in, records and a response out.

controller checks CLUSTER_ACTION and the forwarded principal's rights, and calls the code of each API api the
controller's row of an API, and the inputs of a decision authorization the forwarded principal's rights at one
image; each decision becomes an audit event acls quotas scram tokens requests whose changes go into the
metadata log topics configs requests that a broker carries out, without the rejected parts (proxy.admin)
policy topic_rules an operator's policies for topics and configs topic_owner topic_records deleted_topics
owners and ACLs of topics, which the metadata log stores mutations how many partitions a request changes, and
which of them the quota admits outcome the result of a decision records the key of each record in the log, and
whether an image has it applied audit_events audit events of forwarded requests
"""
