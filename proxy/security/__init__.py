"""Authentication and authorization.

principal            an authenticated identity, its text and its bytes (KIP-590)
principal_builder    makes the principal of a connection; a class may replace it (KIP-189)
principal_serde      encodes principals in Envelopes; a class may replace it
authorizer           the authorizer's interface (KIP-11), its guard, and how one is loaded; hosts as in ACLs
standard             Kafka's StandardAuthorizer on the metadata image (KIP-801, KIP-679)
shadow               other ACLs, which decide beside those in effect and change nothing
protected            Penstock's own topics, group and transactional id, which no client may change
simple               SimpleAclAuthorizer: ACLs in a JSON file (KIP-11's first draft)
backoff              delays logins after failures
delegation_tokens    the cluster's key, HMACs, and tokens as SCRAM credentials (KIP-48)
passwords            hashed passwords of the users file
plugin               loads a class that a setting names
distinguished_name   a certificate's subject as RFC 2253 text
certificate_names    what a certificate says of its owner, as texts that rules read
mapping_rules        maps a distinguished name to a principal's name (KIP-371)
java_patterns        compiles Java's regular expressions with Python's
kerberos_names       maps a Kerberos name to a principal's name
claims               where a token's claims are: names and groups
jwt                  verifies signed tokens
jwk_set              an identity provider's key set
sasl/                the exchanges of each mechanism, server and client side
"""
