"""The service `run --continuous`: ingests all the time, reconciles at intervals, and shows how fresh that is.

schedule    when to reconcile and when to compact, without a clock
exposition  metrics and health over HTTP
service     what is done beside the streams
"""
