"""User names as quota-ids, paths and metric tags show them (KIP-55: URL-encoded, `*` as %2A).

The functions live in proxy.metadata, whose paths need them too; a session calls `sanitize` once.
"""

from proxy.metadata.sanitizer import desanitize, sanitize

__all__ = ["desanitize", "sanitize"]
