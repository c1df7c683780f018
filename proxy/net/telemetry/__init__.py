"""Metrics, log lines and trace spans.

event_metrics    metrics of audit events, logins and requests, and of the proxy's counts at each scrape
client_metrics   connections by the clients' software and versions of APIs
event_lines      log lines of audit events
quota_metrics    rates and limits of active quota-ids
process_metrics  CPU, memory and open files of the process; the lag of its event loop
log_lines        the format of log lines, their sampling, their settings, and a thread that writes them
ecs_lines        the same lines with the names of the Elastic Common Schema
spans            the interface of trace spans, without OpenTelemetry
otlp             exports spans to a receiver over OTLP/HTTP
status_files     the outcomes of the last reload and restart, for the commands and as metrics
"""
