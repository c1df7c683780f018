"""Reads the Kafka topics into the tables.

streams        the streams, their checkpoints and progress, and why one ended
topics         Kafka: a client's options, which topic it is, its records as a stream
decode         Kafka rows -> audit rows, log rows, quarantined rows
reprocess      decodes quarantined records again, after an upgrade
"""
