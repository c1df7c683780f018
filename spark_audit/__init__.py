"""The audit trail in Spark: Kafka topics into Delta tables, tables into findings, findings into a page.

schema            the columns, by name                     (knows nothing)
sources           the only module that reads or writes     (Kafka, Delta, files, the session)
metadata_records  one KRaft record's bytes -> name and JSON
decode            Kafka rows -> audit rows, log rows, quarantined rows
ingest            the streams, their checkpoints
trail             the tables as the checks read them: duplicates out, settings of each process
reconcile/        one file per check: tables -> findings
reconciliation    all checks -> findings, and what could not be checked
retention         old days out of the tables, small files into large ones
report/           tables and findings -> one HTML page

Stands alone: it imports pyspark, jinja2 and itself, never the proxy.
"""
