"""The audit trail in Spark: Kafka topics into Delta tables, tables into findings, findings into a page.

schema            the columns, by name                     (knows nothing)
sources           Delta tables, files
session           the Spark session, its packages and settings
topics            Kafka: which topic it is, its records as a stream
metadata_records  one KRaft record's bytes -> name and JSON
record_batches    Kafka's record batches as they lie in a file
kraft_log         a KRaft node's directory -> where its batches lie, and the records in them
kraft_commit, kraft_quorum    how far they are committed: what the log, and other nodes, prove
kraft_rows, kraft_snapshot, kraft_import    those into the table of the log, once each
decode            Kafka rows -> audit rows, log rows, quarantined rows
ingest            the streams, their checkpoints
progress          what a stream tells of its way
stream_errors     why a stream ended, and how to go on
reprocess         the quarantine read again by a later release
writer_lock       one writer at a time on a local disk
together          small frames in one partition; no_rows: frames of none
in_force          the log without what was taken back
trail             the tables as the checks read them: duplicates out, settings of each process
reconcile/        one file per check: tables -> findings
reconciliation    all checks -> findings, and what could not be checked
retention         old days out of the tables, small files into large ones
report/           tables and findings -> one HTML page

Stands alone: it imports pyspark, jinja2 and itself, never the proxy.
"""
