"""The exception of this package."""


class MetadataError(Exception):
    """A record is corrupt, unknown or contradicts the image; the message names record and offset.

    A follower of the log stops: to continue without a record could mean to continue without a DENY.
    """
