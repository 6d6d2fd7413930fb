"""Launch kinds: which objects a plan becomes. The pods are the same under all of them; who makes the pods differs.

The first object is the primary one: it owns the others, so that deleting it removes all, even when the runner is gone
in between. It is created first, and the ConfigMap, which the pods wait for, last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k8s import manifests, names
from k8s.gateway import Json
from k8s.plan import Plan

KEPT_S = 3600
"""A finished Job stays this long for a runner that starts again, then the cluster removes it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one launch kind writes its primary object down, and what else it needs."""

    name: str
    group: str
    resource: str
    primary: Callable[[Plan], Json]
    needs_service: bool
    remedy: str = ""
    """What to install where the API server does not know the kind."""

    def collection(self, namespace: str) -> str:
        """Path of the primary objects."""
        return names.grouped(self.group, namespace, self.resource)

    def path(self, namespace: str, name: str) -> str:
        """Path of one of them."""
        return names.grouped(self.group, namespace, self.resource, name)


def job(plan: Plan) -> Json:
    """An Indexed Job: one pod a node, no retries, and no failure that ends the other pods before they are read."""
    count = len(plan.workload.nodes)
    meeting = f"{plan.name}-0.{plan.name}.{plan.namespace}.svc"
    template = manifests.pod_template(plan, meeting)
    template["spec"]["subdomain"] = plan.name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _primary_metadata(plan),
        "spec": {
            "completions": count,
            "parallelism": count,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "activeDeadlineSeconds": plan.deadline_s,
            "ttlSecondsAfterFinished": KEPT_S,
            "template": template,
        },
    }


def _primary_metadata(plan: Plan) -> Json:
    meta = manifests.metadata(plan)
    return {**meta, "annotations": {names.WORKLOAD: names.fingerprint(plan.workload)}}


JOB = Kind("job", "batch/v1", "jobs", job, needs_service=True)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (JOB,)}


def dependants(plan: Plan, kind: Kind, primary: Json) -> list[tuple[str, Json]]:
    """(collection, object) of everything that the primary object owns, in order of creation."""
    owner = {
        "apiVersion": primary["apiVersion"],
        "kind": primary["kind"],
        "name": primary["metadata"]["name"],
        "uid": primary["metadata"]["uid"],
    }
    others = [(names.core(plan.namespace, "configmaps"), manifests.config_map(plan, owner))]
    if kind.needs_service:
        others.insert(0, (names.core(plan.namespace, "services"), manifests.service(plan, owner)))
    return others
