"""The policy in effect at an offset of the metadata log, as the checks, what-if and least privilege read it.

acl_history      the offsets between which each ACL was in effect
principals       what ACLs and lists call a session
networks         networks as hosts of ACLs
enforced_acls    ACLs as decisions read them, where part of one is not understood
acl_matches      the ACLs that decide a question, on one resource or on any of a type
topic_owners     the owner of a topic at an offset
evaluation       the decision that all of these give for a question
quota_limits     the quota of a client at an offset
quota_use        what records say was used of a quota
"""
