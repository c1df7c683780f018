"""The one error of this package: the metadata log holds something that cannot be applied."""


class MetadataError(Exception):
    """A record is corrupt, unknown or contradicts the image; the message names record and offset.

    Whoever follows the log stops: going on without a record could mean going on without a DENY.
    """
