"""The HTTP port of a process, and its pages.

http_server  serves /metrics, /livez, /readyz and pages of JSON, on the port of the configuration in effect
http_access  the credentials that a page needs
readiness    the text of /readyz
log_report   what of the metadata log is not understood: its record, metric and line of /readyz
same_id      that another process runs under the same proxy.id
audit_page   /audit: the state of the audit trail
quota_page   /quotas: limited and throttled users, client ids and addresses
disconnecting  POST /disconnect: ends connections for an administrator
connection_page  /connections: who is connected, from where, with what
"""
