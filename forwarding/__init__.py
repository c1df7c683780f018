"""Forwarding of administrative requests to the controller, and the controller itself (KIP-590, KIP-801).

Pure, no I/O:

envelope     encodes and decodes Envelope messages; errors that clients see, errors that are retried
versions     the API versions that the proxy, its broker and the controller all support
controller/  decides: request + metadata image -> Outcome(records, response)

With sockets:

net/         the proxy's connection to the active controller, the controller's listener, the metadata log
config       the controller's configuration file
app          the controller process, from its file to its end
"""
