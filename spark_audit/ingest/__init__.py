"""Reads the Kafka topics into the tables.

streams        the streams and their checkpoints
topics         Kafka: a client's options, which topic it is, its records as a stream
decode         Kafka rows -> audit rows, log rows, quarantined rows
progress       how far a stream is
stream_errors  why a stream ended, and how to go on
reprocess      decodes quarantined records again, after an upgrade
"""
