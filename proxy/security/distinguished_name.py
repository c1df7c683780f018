"""A certificate's subject in Java's form: RFC 2253, as X500Principal.getName() writes it.

ACLs for a broker name principals in this form; a name with another space or another order of its parts would
be another principal. proxy.security.principal_builder passes DER.
"""

from cryptography import x509
from cryptography.x509.oid import NameOID

_KEYWORDS = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""The attributes with a name in RFC 2253; others are written with their number."""

_ESCAPED = str.maketrans({"\0": "\\00"} | {each: f"\\{each}" for each in ',=+<>#;"\\'})

_BLANKS = " \r"

_TEXT_TAGS = frozenset({12, 19, 20, 22, 27, 30})
"""DER types that Java takes for text, all of it UTF-8: UTF8, Printable, T61, IA5, General and BMP strings."""

_MAX_ATTRIBUTES = 64
"""Rules as in Kafka's documentation, with `,OU=(.*?),O=(.*?)` and so on, take 2 ms for so many parts if these
do not match in the end, and 30 times as long for twice as many."""

_DER_LONG_LENGTH = 0x80


def subject(certificate: bytes) -> str:
    """Return the subject of a certificate in DER; "" if it is empty. ValueError if it is no certificate."""
    return rfc2253(x509.load_der_x509_certificate(certificate).subject)


def rfc2253(name: x509.Name) -> str:
    """Return the name in RFC 2253 form: the most specific part first, no space after the commas.

    ValueError if it has more than 64 parts, or one that is not UTF-8.
    """
    if len(name) > _MAX_ATTRIBUTES:
        raise ValueError(f"the certificate's subject has {len(name)} parts, limit {_MAX_ATTRIBUTES}")
    return ",".join("+".join(_attribute(each) for each in part) for part in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    tag, content = attribute._type.value, attribute.value
    if keyword is None or tag not in _TEXT_TAGS or isinstance(content, bytes):
        return f"{keyword or attribute.oid.dotted_string}=#{_der(tag, content).hex()}"
    if tag in _CODECS:
        content = content.encode(_CODECS[tag]).decode()
    return f"{keyword}={_escaped(content)}"


def _escaped(text: str) -> str:
    inner = text.strip(_BLANKS)
    begin = len(text) - len(text.lstrip(_BLANKS))
    lead, trail = (text[:begin], text[begin + len(inner) :]) if inner else (text, "")
    return _all_escaped(lead) + inner.translate(_ESCAPED) + _all_escaped(trail)


def _all_escaped(blanks: str) -> str:
    return "".join(f"\\{each}" for each in blanks)


def _der(tag: int, content: str | bytes) -> bytes:
    data = content if isinstance(content, bytes) else content.encode(_CODECS.get(tag, "utf-8"))
    size = len(data)
    if size < _DER_LONG_LENGTH:
        return bytes((tag, size)) + data
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, _DER_LONG_LENGTH | len(length))) + length + data


_CODECS = {28: "utf-32-be", 30: "utf-16-be"}
"""What cryptography decodes these types with; all others, also a T61 string, with UTF-8."""
