"""What the cluster has agreed on, read from the metadata log: ACLs, quotas, SCRAM credentials, tokens.

image         the immutable whole: MetadataImage
delta         records in log order onto an image
loader        batches in, images out; knows when the high watermark is reached
acl           one ACL as data, and the filter of Describe/DeleteAcls
acls_image    all ACLs, indexed so that the time of a decision does not depend on their number
acls_delta    ACL records onto an ACL image, copying only what they touch
quota_entity  the users, client ids and addresses of a quota, and the filter of DescribeClientQuotas
scram         SCRAM credentials as Kafka stores them
tokens        delegation tokens as Kafka stores them
topics        topics, their configs and owners
topics_delta  records onto these topics
topic_acls    the ACLs of a topic as the value of one of its configs
tree          the image as paths, for `penstock shell`
sharded_map   the immutable mapping under the images
sorted_names  sorted names under the images, searched by prefix
sanitizer     names as they appear in paths, metrics and quota-ids
errors        the errors of a log that cannot be applied

Nothing here decides anything: proxy.security decides on rights, proxy.quota on rates.
"""
