"""SASL exchanges without a socket: token in; Challenge, Accepted, Rejected or Deferred out.

exchange.py   the outcomes, and what every exchange offers
mechanism.py  a mechanism of a listener; those of other people, loaded
plain.py      PLAIN, server side (RFC 4616)
password_check.py  PLAIN's passwords checked by a class of other people
scram.py      SCRAM-SHA-256 and -512, server side (RFC 5802)
oauthbearer.py  OAUTHBEARER, server side (RFC 7628); oauthbearer_message: what its client begins with
gssapi.py     GSSAPI, server side (RFC 4752), over a context of the system's
token.py      delegation tokens as SCRAM credentials (KIP-48)
client.py     PLAIN, SCRAM and OAUTHBEARER as the proxy logs in to its broker
"""
