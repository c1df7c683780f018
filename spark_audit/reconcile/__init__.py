"""One file per check: tables in, findings (spark_audit.schema.FINDING) out; no storage is touched."""
