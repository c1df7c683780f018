"""SASL exchanges without a socket: token in; Challenge, Accepted, Rejected or Deferred out.

exchange.py   the outcomes, and what every exchange offers
mechanism.py  a mechanism of a listener; those of other people, loaded
plain.py      PLAIN, server side (RFC 4616)
scram.py      SCRAM-SHA-256 and -512, server side (RFC 5802)
client.py     PLAIN and SCRAM as the proxy logs in to its broker
"""
