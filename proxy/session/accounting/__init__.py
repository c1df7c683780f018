"""Counts and audit events of requests.

summaries        allowed traffic by resource, and the denials of one request, as audit events
request_counts   what a listener counts for the metrics
response_errors  the errors of a response for its audit records
"""
