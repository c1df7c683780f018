"""The state of the cluster that the metadata log holds: ACLs, quotas, SCRAM credentials, tokens, topics.

acl              one ACL as data, and the filter of DescribeAcls and DeleteAcls
acls_image       all ACLs, indexed so that the cost of a decision does not depend on their number
acls_delta       applies ACL records to an ACL image, copying only what they change
quota_entity     the entity that a quota is set for, and the filter of DescribeClientQuotas
scram            SCRAM credentials as Kafka stores them
tokens           delegation tokens as Kafka stores them
topics           topics with their configs and owners
topics_delta     applies topic and config records to a TopicsImage
topic_acls       the ACLs of a topic as the value of one of its configs
image            MetadataImage, the immutable state at one offset
delta            applies records to an image, in log order
loader           batches in, images out; shows none before the high-water mark is reached
tree             the image as paths, for `penstock shell`
sharded_map      the immutable mapping that the images are made of
sorted_names     sorted names in the images, searched by prefix
errors           the exception for a log that cannot be applied
sanitizer        names as they appear in paths, metrics and quota-ids

Nothing here makes decisions: proxy.security decides on rights, proxy.quota on rates.
"""
