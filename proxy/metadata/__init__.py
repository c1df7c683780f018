"""The state of the cluster that the metadata log holds: ACLs, quotas, SCRAM credentials, tokens, topics.

acl              one ACL as data, and the filter of DescribeAcls and DeleteAcls
networks         networks as hosts of ACLs
acls_image       all ACLs, indexed so that the cost of a decision does not depend on their number
quota_entity     the entity that a quota is set for, the filter of DescribeClientQuotas, Kafka's Sanitizer
scram            SCRAM credentials as Kafka stores them
topic_acls       the ACLs of a topic as the value of one of its configs
image            MetadataImage, the immutable state at one offset, its topics and delegation tokens
delta            applies records to an image, in log order
signatures       which records of a signed log count
signing_keys     the keys of its signatures
state_digest     the digest of what an image has in effect
loader           batches in, images out; shows none before the high-water mark is reached
tree             the image as paths, for `penstock shell`
sharded_map      the immutable mapping that the images are made of
sorted_names     sorted names in the images, searched by prefix

Nothing here makes decisions: proxy.security decides on rights, proxy.quota on rates.
"""
