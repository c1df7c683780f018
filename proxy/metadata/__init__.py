"""What the cluster has agreed on, read from the metadata log: ACLs, quotas, SCRAM credentials, tokens.

    acl.py            one ACL as data, and the filter of Describe/DeleteAcls
    acls_image.py     all ACLs, indexed so that a decision does not depend on their number
    acls_delta.py     ACL records onto an ACL image, copying only what they touch
    quota_entity.py   whom a quota is for, and the filter of DescribeClientQuotas
    scram.py          SCRAM credentials as Kafka stores them
    tokens.py         delegation tokens as Kafka stores them
    topics.py         topics, their configs and owners; topics_delta.py: records onto them
    topic_acls.py     the ACLs of a topic as the value of one of its configs
    image.py          the immutable whole: MetadataImage
    delta.py          records in log order onto an image
    loader.py         batches in, images out; knows when the high-water mark is reached
    tree.py           the image as paths, for `penstock shell`
    sharded_map.py    the immutable mapping under the images
    sorted_names.py   sorted names under the images, searched by prefix
    errors.py         what a log that cannot be applied raises
    sanitizer.py      names as they appear in paths, metrics and quota-ids

Nothing here decides anything: who may do what is proxy.security, how fast is proxy.quota.
"""
