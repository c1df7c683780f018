"""Requests that a session handles itself, and its login at the broker.

handshake       ApiVersions, SASL, and requests that come when they must not
api_versions    the response to ApiVersions
upstream_login  the proxy's own session at the broker, renewed on the client's connection
"""
