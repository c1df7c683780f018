"""Credentials that clients' logins are verified with, and tokens for Penstock's own logins.

credentials        makes the SASL mechanisms of a listener from its settings; users of PLAIN
oauthbearer        OAUTHBEARER: an identity provider's keys (JWKS)
kerberos           GSSAPI: a service key, and contexts of the system's library
verification       threads for checks that take long; addresses take turns
unfinished_logins  time limit of logins, and counts of logins that end without an outcome
bearer_token       tokens for Penstock's own logins, from a file or an identity provider
http_client        small requests to an identity provider, or to a witness
"""
