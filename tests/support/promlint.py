"""The rules of Prometheus' own `promtool check metrics`, over an exposition's text.

Said again here from https://prometheus.io/docs/practices/naming/, for promtool is not at hand where the tests
run.
"""

import re
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

_UNITS = {
    "ampere": "amperes",
    "bits": "bytes",
    "celsius": "celsius",
    "day": "seconds",
    "days": "seconds",
    "hour": "seconds",
    "hours": "seconds",
    "kb": "bytes",
    "kilobytes": "bytes",
    "mb": "bytes",
    "megabytes": "bytes",
    "micros": "seconds",
    "microseconds": "seconds",
    "milliseconds": "seconds",
    "millis": "seconds",
    "minute": "seconds",
    "minutes": "seconds",
    "ms": "seconds",
    "nanoseconds": "seconds",
    "ns": "seconds",
    "percent": "ratio",
    "sec": "seconds",
    "second": "seconds",
    "us": "seconds",
    "week": "seconds",
    "weeks": "seconds",
}
_CAMEL_CASE = re.compile(r"[a-z][A-Z]")
_TYPES = {"gauge", "counter", "summary", "histogram"}


def problems(text: str) -> list[str]:
    """What is wrong with which metric."""
    found = [problem for metric in text_string_to_metric_families(text) for problem in _problems(metric)]
    lines = text.splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    return found + [f"{each} stands twice" for each in sorted({s for s in series if series.count(s) > 1})]


def _problems(metric: Metric) -> Iterator[str]:
    # The parser takes `_total` off a counter's name.
    is_counter = metric.type == "counter"
    words = metric.name.split("_")
    if not metric.documentation:
        yield f"{metric.name} has no help text"
    if is_counter and not all(sample.name.endswith("_total") for sample in metric.samples):
        yield f"{metric.name} is a counter without _total"
    if not is_counter and metric.name.endswith("_total"):
        yield f"{metric.name} ends with _total and is no counter"
    if metric.type in ("gauge", "counter", "info") and metric.name.endswith(("_count", "_sum", "_bucket")):
        yield f"{metric.name} ends like a part of a histogram"
    yield from (f"{metric.name}: not a base unit: {word}" for word in words if word in _UNITS)
    yield from (f"{metric.name} has its type in its name" for word in words if word in _TYPES)
    if ":" in metric.name or _CAMEL_CASE.search(metric.name) or metric.type == "unknown":
        yield f"{metric.name}: a colon, camel case or no type"
    labels = {label for sample in metric.samples for label in sample.labels}
    reserved = {"le"} if metric.type != "histogram" else set()
    yield from (f"{metric.name}: label {label}" for label in labels & (reserved | {"quantile"}))
    yield from (f"{metric.name}: label {label}" for label in labels if _CAMEL_CASE.search(label))
    if any(sample.name.endswith("_created") for sample in metric.samples):
        yield f"{metric.name} has a series of its creation, which nobody reads"
