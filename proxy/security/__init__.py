"""Authentication and authorization.

principal            an authenticated identity, its text and its bytes (KIP-590)
principal_builder    makes the principal of a connection; a class may replace it (KIP-189)
principal_serde      encodes principals in Envelopes; a class may replace it
host                 client addresses as in ACLs
authorizer           the authorizer's interface (KIP-11), its guard, and how one is loaded
standard             Kafka's StandardAuthorizer on the metadata image (KIP-801)
by_resource_type     whether a caller may do something to any resource of a type (KIP-679)
protected            Penstock's own topics, group and transactional id, which no client may change
simple               SimpleAclAuthorizer: ACLs in a JSON file (KIP-11's first draft)
simple_file          parses that file
settings             settings that several authorizers have
expiry               when a SASL session expires (KIP-368)
backoff              delays logins after failures
passwords            hashed passwords of the users file
token_secret         the key that delegation tokens are verified with (KIP-48)
plugin               loads a class that a setting names
distinguished_name   a certificate's subject as RFC 2253 text
mapping_rules        maps a distinguished name to a principal's name (KIP-371)
kerberos_names       maps a Kerberos name to a principal's name
java_patterns        Java's regular expressions in these rules
jwt                  verifies signed tokens
jwk_set              an identity provider's key set
sasl/                the exchanges of each mechanism, server and client side
"""
