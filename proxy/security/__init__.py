"""Authentication and authorization: who a client is, and what it may do.

principal           an authenticated identity, its text and its bytes (KIP-590)
principal_builder   from what a connection has shown to a principal, by a plug-in class
principal_serde     a principal in an Envelope, by a plug-in class
host                client addresses as ACLs name them
authorizer          the pluggable interface (KIP-11), its guard, and how one is loaded
standard            Kafka's StandardAuthorizer over the metadata image (KIP-801)
by_resource_type    whether a caller may do something to any resource of a type (KIP-679)
protected           Penstock's own topics, group and transactional id, which no client changes
simple              SimpleAclAuthorizer: ACLs of a JSON file (KIP-11's first draft)
simple_file         that file, checked
settings            settings that authorizers have in common
expiry              when a SASL session is over (KIP-368)
backoff             a growing delay after failed logins, against password guessing
passwords           hashed passwords of the users file
token_secret        the key of the HMACs of delegation tokens (KIP-48)
plugin              a plug-in class, loaded by its name
distinguished_name  a certificate's subject as RFC 2253 text
mapping_rules       from a certificate's subject to the principal's name
kerberos_names      from a Kerberos name to the principal's name
java_patterns       the regular expressions in these rules
jwt                 a signed token and a key set into claims, or into what is wrong
jwk_set             an identity provider's key set
sasl/               the exchanges of each mechanism, both sides
"""
