"""What operators see from outside: metrics, log lines, trace spans.

event_metrics    metrics that audit events move, and the proxy's counts at each scrape
event_lines      log lines of audit events
login_metrics    metrics of logins and re-authentications
request_metrics  latency and errors of requests
quota_metrics    rates and limits of active quota-ids
process_metrics  CPU, memory and open files of the process; the lag of its event loop
log_lines        how log lines look, and which are left out
log_queue        a thread that writes log lines, so that logging never waits
log_settings     the log level and the process's id, read before the configuration is checked
spans            trace spans without OpenTelemetry
request_tracer   spans of the requests of one session
otlp             spans to a receiver over OTLP/HTTP
reload_status    the outcome of the last reload, for `penstock reload` and as metrics
"""
