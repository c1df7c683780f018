"""SASL exchanges without a socket: token in; Challenge, Accepted, Rejected or Deferred out.

exchange             a listener's mechanisms, the outcomes of an exchange, the expiry of the session (KIP-368)
plain                PLAIN, server side (RFC 4616), also with a plug-in that checks passwords
scram                SCRAM-SHA-256 and -512, server side (RFC 5802)
oauthbearer          OAUTHBEARER, server side (RFC 7628)
oauthbearer_message  the client's first message of OAUTHBEARER
gssapi               GSSAPI, server side (RFC 4752), on a context of the system's library
client               PLAIN, SCRAM and OAUTHBEARER, client side: how the proxy logs in to its broker
"""
