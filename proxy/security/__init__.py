"""Who is this, and may they.

principal.py    an authenticated identity, its text and its bytes (KIP-590)
principal_builder.py  from what a connection has shown to a principal, by a class of one's own
principal_serde.py  a principal in an Envelope, by a class of one's own
host.py         client addresses as ACLs name them
authorizer.py   the pluggable interface (KIP-11), its guard, and how one is loaded
standard.py     Kafka's StandardAuthorizer over the metadata image (KIP-801)
by_resource_type.py  whether a caller may do something to any resource of a type (KIP-679)
protected.py    Penstock's own topics, group and transactional id, which no client changes
simple.py       SimpleAclAuthorizer: ACLs of a JSON file (KIP-11's first draft)
simple_file.py  that file, checked
settings.py     settings that authorizers have in common
expiry.py       when a SASL session is over (KIP-368)
backoff.py      guessing passwords gets slower
passwords.py    hashed passwords of the users file
token_secret.py the key that delegation tokens are proved with (KIP-48)
plugin.py       a class of one's own, loaded by its name
distinguished_name.py  a certificate's subject as RFC 2253 text
mapping_rules.py, kerberos_names.py  from a certificate's owner, or a Kerberos name, to the principal's name
java_patterns.py  the regular expressions in these rules
jwt.py          a signed token and a key set into claims, or into what is wrong
jwk_set.py      an identity provider's key set
sasl/           the exchanges of each mechanism, both sides
"""
