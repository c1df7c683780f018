"""Metrics, log lines and trace spans.

event_metrics    metrics of audit events, and of the proxy's counts at each scrape
event_lines      log lines of audit events
login_metrics    metrics of logins and re-authentications
request_metrics  latency and errors of requests
quota_metrics    rates and limits of active quota-ids
process_metrics  CPU, memory and open files of the process; the lag of its event loop
log_lines        the format of log lines, and their sampling
log_queue        a thread that writes log lines, so that logging never blocks
log_settings     the log level and the process's id, read before the configuration is validated
spans            the interface of trace spans, without OpenTelemetry
request_tracer   spans of the requests of one session
otlp             exports spans to a receiver over OTLP/HTTP
reload_status    the outcome of the last reload, for `penstock reload` and as metrics
restart_status   the outcome of the last SIGUSR2, for `penstock restart`
"""
