"""The audit trail of a process: events in, a gapless sequence of records on disk and in the audit topic out.

audit_log    numbers and seals each event, and passes it to the other parts
capacity     the room for records of each class, and what happens without it
writer       a queue and a thread, from the event loop to the spool
spool        segments on disk: append, read, remove
spool_files  names, lines and durability of these files
spool_lock   one process for each spool directory
spool_loss   segments that another process removed or truncated, and the records that were lost
shipper      from the spool to the audit topic, with a checkpoint; a thread for a disk that may be slow
delivery     batches to the topic by an idempotent producer (KIP-98), retried until acknowledged
outside_witness  passes signed checkpoints to a directory or a URL outside
metrics      metrics of the audit trail
"""
