"""The controller's decisions: a request and the metadata image in, records and a response out.

controller      checks CLUSTER_ACTION and the forwarded principal's rights, and calls the code of each API
api             the controller's row of an API, the inputs of a decision and its result
authorization   the forwarded principal's rights at one image; each decision becomes an audit event
acls            CreateAcls, DeleteAcls: records of ACLs
quotas          AlterClientQuotas: records of quotas
scram           AlterUserScramCredentials: records of credentials
tokens          requests about delegation tokens: records of tokens
topics          requests about topics, sent to a broker without the rejected parts (proxy.admin)
configs         requests about configs, likewise
replicas        reassignments and elections, likewise
policy          an operator's policies for topics and configs (KIP-108, KIP-133)
topic_rules     such a policy made of settings
topic_owner     the configs `owner` and `acls` of topics: who may set them, and their records
topic_records   records about topics that a broker has created, deleted or altered, and topics gone there
mutations       how many partitions a request changes, and which of them the quota admits
records         the key of each record in the log, and whether an image has it applied
signing         the signatures of the records, and the records of a whole image
audit_events    audit events of forwarded requests
"""
