"""What logins are checked against, and tokens for Penstock's own logins.

credentials        the SASL mechanisms of a listener, made from its settings
plain_users        users of PLAIN and their hashed passwords
oauthbearer        OAUTHBEARER: an identity provider's keys (JWKS)
kerberos           GSSAPI: a service key and contexts of the system's library
verification       threads for checks that take long
fair_queue         the queue of these checks: addresses take turns
unfinished_logins  time limit of logins, and how many end without an outcome
bearer_token       a token for a login of Penstock itself, from a file or an identity provider
http_client        small requests to an identity provider
"""
