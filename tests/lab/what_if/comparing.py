"""Both runs against the prediction: exactly the predicted rights change, and the throttled time is right."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.lab.what_if.traffic import GREEDY

Record = Mapping[str, Any]
Key = tuple[Any, ...]
TOLERANCE = 0.10
_KEY = ("principal", "client_id", "operation", "resource_type", "resource_name")
_DECIDED = ("authorization", "authorization_summary")
_PREDICTED = {"newly_denied": False, "newly_allowed": True}


@dataclass(frozen=True, slots=True)
class Outcome:
    faults: list[str]
    compared: int
    """Rights that both runs have asked for, and of which the prediction says something."""
    changed: int
    cannot_be_said: int
    predicted_ms: int
    throttled_ms: int


def compared(before: Iterable[Record], document: Record, after: Iterable[Record]) -> Outcome:
    """`before` and `after` are the records of both runs, `document` is what-if's."""
    before, after = list(before), list(after)
    faults: list[str] = []
    then, now = outcomes(before, faults), outcomes(after, faults)
    predicted = {
        _key(row): _PREDICTED[row["outcome"]] for row in document["access"] if row["outcome"] in _PREDICTED
    }
    unknown = {_key(row) for row in document["access"] if row["outcome"] == "cannot_be_said"}
    both = (then.keys() & now.keys()) - unknown
    faults += _wrong(then, now, predicted, both)
    predicted_ms, throttled_ms = _predicted_ms(document), _throttled_ms(after)
    if abs(throttled_ms - predicted_ms) > TOLERANCE * predicted_ms or not predicted_ms:
        faults.append(f"throttled for {throttled_ms} ms, predicted were {predicted_ms} ms")
    return Outcome(faults, len(both), len(predicted), len(unknown), predicted_ms, throttled_ms)


def outcomes(records: Iterable[Record], faults: list[str]) -> dict[Key, bool]:
    """Return what each client got for each right. One that got both is a fault: it changed within a run."""
    found: dict[Key, bool] = {}
    for record in records:
        if record["event"] == "authorization_collapsed":
            faults.append(f"denials of {record['principal']} were collapsed: no record names their resources")
        if record["event"] in _DECIDED:
            key = _key(record)
            if found.setdefault(key, record["granted"]) != record["granted"]:
                faults.append(f"{key} was allowed and denied in one run")
    return found


def _wrong(
    then: Mapping[Key, bool], now: Mapping[Key, bool], predicted: Mapping[Key, bool], both: Iterable[Key]
) -> Iterator[str]:
    for key in sorted(both, key=str):
        if now[key] != predicted.get(key, then[key]):
            said = "newly " * (key in predicted) + ("allowed" if predicted.get(key, then[key]) else "denied")
            yield f"{key}: predicted was {said}, it was {'allowed' if now[key] else 'denied'}"
    for key in sorted(predicted.keys() - now.keys(), key=str):
        yield f"{key}: a change was predicted, but no client asked for it"


def _key(row: Record) -> Key:
    return tuple(row[name] for name in _KEY)


def _predicted_ms(document: Record) -> int:
    return sum(row["throttled_ms"] for row in document["throttling"] if row["quota_id"] == f"{GREEDY}:")


def _throttled_ms(records: Iterable[Record]) -> int:
    return sum(
        record["throttle_time_ms"] or 0
        for record in records
        if record["event"] == "throttled" and record["principal"] == f"User:{GREEDY}"
    )
