"""The audit jobs in Spark: Kafka topics -> Delta tables -> findings -> a page.

schema      the columns of all tables; knows nothing else
tables/     reads and writes the tables and single files
session     the Spark session
trail/      the audit trail and the metadata log as the checks read them
kraft/      imports Kafka's own metadata log
ingest/     reads the Kafka topics into the tables
reconcile/  the checks: tables -> findings
report/     tables and findings -> one HTML page
__main__    the command line

Imports only pyspark, delta, jinja2 and itself, never the proxy.
"""
