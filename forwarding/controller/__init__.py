"""The controller's decisions: a request and the metadata image in, records and a response out.

controller     the CLUSTER_ACTION check, the forwarded principal's rights, the right code for each API
served         the controller's row of an API, and what a decision gets
access         the forwarded principal's rights at one image; each decision becomes an audit event
acls           CreateAcls, DeleteAcls: records of ACLs
quotas         AlterClientQuotas: records of quotas
scram          AlterUserScramCredentials: records of credentials
tokens         the requests about delegation tokens: records of tokens
topics         requests about topics, passed to a broker without the rejected parts (proxy.admin)
configs        requests about configs, likewise
policy         an operator's own rules for topics and configs (KIP-108, KIP-133)
topic_rules    such a policy made of settings
topic_owner    the configs `owner` and `acls` of topics: who may set them, and their records
topic_records  records about topics that a broker has created, deleted or altered
gone_topics    topics that were deleted at a broker directly: their records are removed
mutations      how many partitions a request changes, and what the quota allows
outcome        the result of a decision
records        the key of each record in the log, and whether an image shows it
facts          audit events of forwarded requests
"""
