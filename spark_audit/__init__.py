"""The audit jobs in Spark: Kafka topics -> Delta tables -> findings -> a page.

schema      the columns of all tables; knows nothing else
quota_keys  the keys of quotas, and what their use is counted in; knows nothing else
proposal    reads a file of proposed changes; needs no Spark
tables/     reads and writes the tables and single files
prepared    the packages and the archive of classes that this machine has for sessions
session     the Spark session
views       prints SQL views over the tables; starts no JVM
trail/      the audit trail and the metadata log as the checks read them
policy/     the ACLs, topic owners and quotas in effect at an offset
kraft/      imports Kafka's own metadata log
ingest/     reads the Kafka topics into the tables
reconcile/  the checks: tables -> findings
report/     tables and findings -> one HTML page
what_if/    recorded traffic under a proposed change of policy
least_privilege/  grants, users and quotas that nothing has used as far as they go
siem/       records as OCSF or ECS -> files or HTTP
failures    why Spark has failed, in one line; starts no JVM
progress    which step of a job is running; needs no Spark
prepare     makes what is prepared
jobs        reconciles tables, and writes pages, with the manifest
service/    ingests, reconciles and reports until it is stopped
arguments   the options of the command line
__main__    the command line

Imports only pyspark, delta, jinja2, prometheus_client and itself. With public keys, the driver also imports
the proxy's code for signatures and records of the log.
"""
