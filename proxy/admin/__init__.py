"""Decisions on administrative requests that the proxy and the controller share (decision 0058).

A proxy authorizes a request before it forwards it, and the controller authorizes it again (KIP-590): both
call the same functions, each with its own `Authorization`. Nothing here depends on sessions, the metadata log
or brokers.

authorization    a principal's rights at one image, and which decisions on them are recorded
rejection        the responses, and the parts of responses, that report an error
topics           CreateTopics, CreatePartitions, DeleteTopics: the rejected topics and their errors
replicas         AlterPartitionReassignments, ElectLeaders: which topics the right on the cluster covers
configs          the right that each config resource needs
objects          what a request is about, for its audit record, and which configs have no secret
tokens           who may create a delegation token for which owner, and the responses
"""
