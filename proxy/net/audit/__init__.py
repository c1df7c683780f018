"""The audit trail of a process: events in, a sequence without holes on disk and in the audit topic out.

audit_log    numbers and seals each event, and hands it to the other parts
capacity     whether there is room for a record of each class, and what happens if not
writer       a queue and a thread, from the event loop to the spool
spool        segments on disk: append, read, remove
spool_files  names, lines and durability of these files
spool_lock   one process for each spool directory
spool_loss   segments that another process removed or cut, and the records that were lost
disk_thread  a thread for reads and small writes, which a slow disk may block
shipper      from the spool to the audit topic, with a checkpoint
delivery     batches to the topic, retried until Kafka has them
producer     an idempotent producer for one partition (KIP-98)
metrics      the state of the trail as metrics
"""
