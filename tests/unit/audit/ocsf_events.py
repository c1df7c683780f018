"""What an audit record would lack as an OCSF event: our attributes against what the schema requires.

Asked with the fields that a record has, whatever is in them.
"""

from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

from proxy.audit import ocsf
from proxy.audit.ocsf import attributes_of, ocsf_of
from proxy.audit.record import STAMP_FIELDS, AuditEvent
from tests.unit.audit import ocsf_facts as facts
from tests.unit.audit.ocsf_facts import CLASSES, OBJECTS


def missing(event: str, fields: Set[str]) -> list[str]:
    """Attributes that the class, or an object in the event, requires and such a record does not tell."""
    told = attributes_told(event, fields)
    of_class, roots = CLASSES[_class_of(event)], _roots(told)
    required = facts.BASE_REQUIRED - facts.CLASSIFICATION | of_class.required
    lacking = [*sorted(required - roots), *_none_of(of_class.at_least_one, roots)]
    for holder, names in _objects(told).items():
        lacking += [f"{holder}.{name}" for name in sorted(OBJECTS[holder].required - names)]
        lacking += [f"{holder}: {name}" for name in _none_of(OBJECTS[holder].at_least_one, names)]
    return lacking


def attributes_told(event: str, fields: Set[str]) -> set[str]:
    """All attribute paths of the OCSF event that such a record becomes."""
    present = {*fields, *STAMP_FIELDS, "event"}
    told = {path for name, paths in attributes_of(event).items() if name in present for path in paths}
    of_class = CLASSES[_class_of(event)]
    possible = of_class.required | of_class.others | facts.BASE
    told |= {path for path in ocsf.FIXED if path.partition(".")[0] in possible}
    replaced = {"resources", "api"} & _roots(told) | of_class.required - _roots(told)
    return told | {path for path in ocsf.INSTEAD if path.partition(".")[0] in replaced}


def _class_of(event: str) -> int:
    return ocsf_of(AuditEvent(event=event)).class_uid


def _none_of(wanted: Set[str], there: Set[str]) -> Iterator[str]:
    if wanted and not wanted & there:
        yield f"one of {', '.join(sorted(wanted))}"


def _roots(paths: Set[str]) -> set[str]:
    return {path.partition(".")[0] for path in paths}


def _objects(paths: Set[str]) -> Mapping[str, set[str]]:
    """Each object that occurs in the paths -> which of its attributes are there."""
    found: dict[str, set[str]] = {}
    for path in paths:
        for holder, name in pairwise(path.split(".")):
            found.setdefault(holder, set()).add(name)
    return found
