"""Applies every object that the chart renders to a real API server, with each set of values.

    .venv/bin/python -m tests.lab.kubernetes

Each set gets a namespace that enforces the `restricted` Pod Security Standard, and each workload a pod of its
template, since no controller runs that would create it. The kinds of operators (monitors, certificates,
routes) are defined first. The patch of the sidecar is applied to a StatefulSet. Exit code 1 if the server
rejects or warns of anything.
"""

import copy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cluster.errors import SetupError
from tests.lab.kubernetes.server import Api, define, definitions, running
from tests.support import chart
from tests.support.helm import helm

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
STATEFUL_SET: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "kafka"},
    "spec": {
        "serviceName": "kafka-headless",
        "selector": {"matchLabels": {"app": "kafka"}},
        "template": {
            "metadata": {"labels": {"app": "kafka"}},
            "spec": {
                "securityContext": {
                    "fsGroup": 1000,
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "kafka",
                        "image": "apache/kafka:4.4.0",
                        "securityContext": {
                            "runAsUser": 1000,
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "penstock-spool"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    },
}
"""One that somebody else wrote, ready for the patch as deploy/README.md says."""


class Run:
    """Applies objects and keeps what the server said of them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.wrong: list[str] = []
        self.applied: Counter[str] = Counter()
        self._resources: dict[tuple[str, str], str] = {}

    def apply(self, each: dict[str, Any], namespace: str) -> None:
        version, kind, name = each["apiVersion"], each["kind"], each["metadata"]["name"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._resources:
            status, found, _ = self._api.request("GET", base)
            for resource in found.get("resources", ()) if status == 200 else ():
                if "/" not in resource["name"]:
                    self._resources[version, resource["kind"]] = resource["name"]
        if (version, kind) not in self._resources:
            self.wrong.append(f"{namespace}: {kind} {name}: no such kind in {version}")
            return
        path = f"{base}/namespaces/{namespace}/{self._resources[version, kind]}?fieldValidation=Strict"
        self.expect(f"{namespace}: {kind} {name}", *self._api.request("POST", path, each))
        self.applied[kind] += 1
        template = each["spec"].get("jobTemplate", each)["spec"].get("template") if "spec" in each else None
        if template is not None:
            self.apply(_pod(each, template), namespace)

    def expect(self, what: str, status: int, found: dict[str, Any], warnings: list[str]) -> None:
        if status not in (200, 201):
            self.wrong.append(f"{what}: {status} {found.get('message')}")
        self.wrong += [f"{what}: warning: {warning}" for warning in warnings]


def _pod(workload: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """A pod as the controller of its kind would create it."""
    pod = copy.deepcopy(template)
    name = f"{workload['metadata']['name']}-0"
    pod["metadata"] = {**pod["metadata"], "name": name}
    for claim in workload["spec"].get("volumeClaimTemplates", ()):
        volume = claim["metadata"]["name"]
        pod["spec"].setdefault("volumes", []).append(
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        )
    pod["spec"].pop("priorityClassName", None)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def apply_set(run: Run, api: Api, program: Path, values: Path) -> None:
    namespace = values.stem.removesuffix("-values")
    labels = {"name": namespace, "labels": RESTRICTED}
    status = api.request("POST", "/api/v1/namespaces", {"metadata": labels})[0]
    if status != 201:
        raise SetupError(f"the namespace {namespace} cannot be created: {status}")
    for each in chart.objects(program, "--values", str(values)):
        run.apply(each, namespace)
        patch = each.get("data", {}).get("patch.yaml")
        if patch is not None:
            run.apply(STATEFUL_SET, namespace)
            path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/kafka?fieldValidation=Strict"
            patched = api.request(
                "PATCH", path, yaml.safe_load(patch), "application/strategic-merge-patch+json"
            )
            run.expect(f"{namespace}: the patch", *patched)
            template = patched[1]["spec"]["template"]
            names = [each["name"] for each in template["spec"]["initContainers"]]
            if names != ["penstock-check", "penstock"]:
                run.wrong.append(f"{namespace}: the patched pods have {names}")
            run.apply(_pod(patched[1] | {"metadata": {"name": "patched"}}, template), namespace)


def main() -> int:
    program = helm()
    with running() as api:
        for definition in definitions():
            define(api, definition)
        run = Run(api)
        for values in chart.VALUE_SETS:
            apply_set(run, api, program, values)
    lines = [f"applied: {dict(run.applied)}", *run.wrong]
    sys.stdout.write("\n".join([*lines, f"{len(run.wrong)} wrong", ""]))
    return int(bool(run.wrong))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.exit(str(error))
