"""Addresses of one cluster: `a:9092,b:9092` as Kafka's bootstrap.servers, or a YAML list of them."""

from typing import Annotated

from pydantic.functional_validators import BeforeValidator

from proxy.config.parts import host_port


def _addresses(value: object) -> object:
    listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError(f"expected host:port, or several with commas between them, found {value!r}")
    addresses = tuple(host_port(str(each)) for each in listed)
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice:
        raise ValueError(f"named more than once: {', '.join(twice)}")
    return addresses


Bootstrap = Annotated[tuple[str, ...], BeforeValidator(_addresses)]
