"""Kafka's own metadata log: the directories of KRaft nodes -> table `metadata_log`.

log_import        imports what is new and committed
log_directory     a node's directory: its segments, snapshots and their records
commit            how far one node's log is committed
quorum            what several nodes and snapshots prove about that
rows              slices of files, and snapshots -> rows of the table
record_batches    Kafka's record batches in a file
secrets           what the table has of a record with secrets
metadata_records  the bytes of one metadata record -> its name and fields as JSON
"""
