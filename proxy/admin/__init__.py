"""What the proxy and the controller both decide on administrative requests, written once (decision 0058).

A proxy authorises a request before it forwards it, and the controller authorises it again (KIP-590): both
call the same functions here, each with its own `Authorization`. Nothing here knows of sessions, of the
metadata log or of brokers.

authorization    a principal's rights at one image, and which decisions on them are recorded
rejection        the responses, and the parts of responses, that report an error
topics           CreateTopics, CreatePartitions, DeleteTopics: which topics are rejected, and their names
configs          which right a config resource needs
tokens           who may own a delegation token, and the responses about one
"""
