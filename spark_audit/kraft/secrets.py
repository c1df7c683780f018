"""What table `metadata_log` has of a record that may have secrets, for signatures and digests of states.

Does not import Spark: it runs in a UDF.
"""

from hashlib import sha256

from spark_audit.kraft import metadata_records

_CREDENTIAL, _CONFIG = 11, 4
_NO_SECRET = bytes(32)


def hidden(value: bytes | bytearray | None) -> bytes | None:
    """Return the hash of a record with secrets and what stands for them, None for any other record.

    The latter is `ScramCredential.fingerprint` in proxy.metadata.scram.
    """
    try:
        record = metadata_records.decode(value)
    except metadata_records.RecordError:
        return None
    whole = bytes(value or b"")
    if record.api_key == _CREDENTIAL:
        reader = metadata_records.Reader(whole)
        for _ in ("frame version", "api key", "version"):
            reader.uvarint()
        reader.string()
        reader.int8()
        parts = [reader.compact_bytes() or b"" for _ in ("salt", "stored key", "server key")]
        fingerprint = sha256(b"".join(sha256(part).digest() for part in parts)).digest()
        return sha256(whole).digest() + fingerprint
    # The config of a broker may be a password.
    is_open = record.api_key != _CONFIG or (record.fields or {}).get("resource_type") == "TOPIC"
    return None if is_open else sha256(whole).digest() + _NO_SECRET
