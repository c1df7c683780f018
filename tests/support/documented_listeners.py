"""A configuration that docs/logins.md prints, with a stack's addresses and files in place of the page's."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import Stack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logins.md"


def documented(heading: str) -> dict[str, Any]:
    """The one configuration below that heading."""
    section = re.split(
        r"^#+ ", PAGE.read_text(encoding="utf-8").split(f"\n{heading}\n")[1], flags=re.MULTILINE
    )
    (block,) = re.findall(r"```yaml\n(.*?)```", section[0], re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def run_with(stack: Stack, configuration: Mapping[str, Any]) -> dict[str, str]:
    """Give the configuration to proxy and controller; return the address of each of its listeners.

    The stack's administrator and its proxies are super users besides those of the page, since it is they who
    make topics, and follow the log.
    """
    proxy = yaml.safe_load(stack.proxy_file.read_text())
    controller = yaml.safe_load(stack.controller_file.read_text())
    names = [listener["name"] for listener in configuration["listeners"]]
    addresses = dict(zip(names, free_addresses(len(names)), strict=True))
    own = [each for each in proxy["listeners"] if each["name"] not in addresses]
    wanted = [
        listener | dict.fromkeys(("bind", "advertised"), addresses[listener["name"]])
        for listener in configuration["listeners"]
    ]
    for document in (proxy, controller):
        users = [
            each["super.users"]
            for each in (document["authorizer"], configuration["authorizer"])
            if "super.users" in each
        ]
        document["authorizer"] |= configuration["authorizer"] | {"super.users": ";".join(users)}
    proxy["listeners"] = own + wanted
    proxy |= {key: configuration[key] for key in configuration.keys() - {"listeners", "authorizer"}}
    stack.proxy_file.write_text(yaml.safe_dump(proxy))
    stack.controller_file.write_text(yaml.safe_dump(controller))
    return addresses


def with_files(configuration: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """The configuration with other texts in place of these; each of them has to be in it."""
    text = yaml.safe_dump(configuration)
    for name, path in files.items():
        assert name in text, f"the page has no {name}"
        text = text.replace(name, path)
    found: dict[str, Any] = yaml.safe_load(text)
    return found
