"""The way to the controller, and the controller (KIP-590, KIP-801).

Pure, no IO:

envelope     a client's request, principal and address <-> an Envelope message; the errors that clients see
retry        which responses are retried, and after what pause
versions     ApiVersions that the proxy, its broker and the controller all speak
controller/  request + metadata image -> Outcome(records, response)

With sockets:

net/         the proxy's way to the active controller, the controller's listener, the metadata log
config       the controller's configuration file
__main__     `run_controller`: puts the controller process together
"""
