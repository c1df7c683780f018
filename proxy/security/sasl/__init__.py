"""SASL exchanges without a socket: token in; Challenge, Accepted, Rejected or Deferred out.

exchange             the outcomes, and what every exchange offers
mechanism            a mechanism of a listener; loads those of plug-ins
plain                PLAIN, server side (RFC 4616)
password_check       PLAIN's passwords checked by a plug-in class
scram                SCRAM-SHA-256 and -512, server side (RFC 5802)
oauthbearer          OAUTHBEARER, server side (RFC 7628)
oauthbearer_message  the first message of an OAUTHBEARER client
gssapi               GSSAPI, server side (RFC 4752), over a context of the system's
token                delegation tokens as SCRAM credentials (KIP-48)
client               PLAIN, SCRAM and OAUTHBEARER as the proxy logs in to its broker
"""
