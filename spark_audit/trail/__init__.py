"""The audit trail and the metadata log as the checks read them. Reads no storage.

processes              the settings that each process has recorded
sequence_index         which sequences of each boot are present, and where
deduplicate            each audit record once
claims                 the metadata offsets that a controller claims to have written
metadata_transactions  the metadata log without aborted transactions
log_gaps               Kafka's own log and a topic's log apart; missing offsets
acl_history            the offsets between which each ACL was in effect
"""
