"""The controller's decisions: a request and the metadata image in, records and a response out.

controller      the CLUSTER_ACTION check, the forwarded principal's rights, the right code for each API
served          the controller's row of an API, and what a decision gets
access          the forwarded principal's rights at one image; each decision becomes an audit event
acls quotas scram tokens        what goes into the metadata log
topics configs                  what goes on to a broker, without the rejected parts (proxy.admin)
policy topic_rules              an operator's own rules for topics and configs
topic_owner topic_records gone_topics       owners and ACLs of topics, which the log keeps
mutations       how many partitions a request changes, and what the quota lets through
outcome         what a decision comes to
records         the key of each record in the log, and whether an image shows it
facts           audit events of forwarded requests
"""
