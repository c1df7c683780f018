"""Names of clients, topics and ACLs on a terminal: anybody may have chosen one."""


def plain(text: str) -> str:
    """Return a text that a terminal only shows: quoted and escaped, if it would obey or hide a part of it."""
    return text if text.isprintable() else repr(text)
