"""Counts and audit events of requests.

summaries        allowed traffic by resource, as audit events
request_counts   what a listener counts for the metrics
response_errors  the errors of a response for its audit records
"""
