"""What the controller says itself where it carries out nothing, and the log entries of what it does.

Used by forwarding.net.writer.
"""

from collections.abc import Iterable

from forwarding.controller.records import key_of
from forwarding.envelope import Forwarded, Refused
from forwarding.net.log import MAX_BATCH_BYTES, Entry
from forwarding.retry import AUTHORIZER_NOT_READY
from proxy.session.apis.table import rejection
from proxy.wire import metadata_records
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced

_ENTRY_UNITS = 16
"""What an entry costs, in the units of proxy.wire.work."""
MAX_RECORD_BYTES = MAX_BATCH_BYTES - 10_000

NOT_CONTROLLER = Refused(ErrorCode.NOT_CONTROLLER, "not the active controller")
PASSING = (ErrorCode.NOT_CONTROLLER, AUTHORIZER_NOT_READY)
"""Refusals that say nothing but "later" or "elsewhere": counted, not recorded."""


def log_entries(records: Iterable[Message]) -> list[Entry]:
    return [
        Entry(key_of(record).encode(), metadata_records.encode_record(record))
        for record in paced(list(records), _ENTRY_UNITS)
    ]


def too_large(forwarded: Forwarded, size_bytes: int) -> Message:
    message = f"A metadata record of {size_bytes} bytes, the limit is {MAX_RECORD_BYTES}."
    return refused(forwarded, ErrorCode.POLICY_VIOLATION, message)


def unrecordable(forwarded: Forwarded) -> Message:
    message = "The audit trail of the controller is full: no change can be recorded, so none is made."
    return refused(forwarded, ErrorCode.UNKNOWN_SERVER_ERROR, message)


def error_name(error_code: int) -> str:
    if error_code == AUTHORIZER_NOT_READY:
        return "AUTHORIZER_NOT_READY"
    return ErrorCode(error_code).name


def refused(forwarded: Forwarded, error_code: ErrorCode, message: str | None = None) -> Message:
    header = forwarded.header
    rejected: Message = rejection(header.api_key, header.api_version, forwarded.message, error_code, message)
    return rejected
