"""Launch kinds: which objects a plan becomes. The pods are the same under all of them; who makes the pods differs.

The root object owns the others, so that deleting it removes all, even when the runner is gone in between. What the pods
or an admission webhook want to find comes before it (and is handed over to it at once); what the pods wait for, the
ConfigMap with the program, comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k8s import manifests, names
from k8s.gateway import Json
from k8s.plan import Plan

KEPT_S = 3600
"""A finished Job stays this long for a runner that starts again, then the cluster removes it."""
TRAINER = "trainer.kubeflow.org/v1alpha1"

Placed = tuple[str, Json]
"""(collection, object)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one launch kind writes its root object down, and what else it needs."""

    name: str
    group: str
    resource: str
    root: Callable[[Plan], Json]
    before: Callable[[Plan], list[Placed]] = lambda _: []
    needs_service: bool = False
    longest: int = names.LONGEST
    """Characters that a run's name may have, so that its pods' names fit."""
    remedy: str = ""
    """What to install where the API server does not know the kind."""

    def collection(self, namespace: str) -> str:
        """Path of the root objects."""
        return names.grouped(self.group, namespace, self.resource)

    def path(self, namespace: str, name: str) -> str:
        """Path of one of them."""
        return names.grouped(self.group, namespace, self.resource, name)


def first(plan: Plan, kind: Kind) -> list[Placed]:
    """What is created before the root object: the gang's group, and what the kind itself needs."""
    return [*plan.grouping.objects, *kind.before(plan)]


def dependants(plan: Plan, kind: Kind, root: Json) -> list[Placed]:
    """What is created after the root object and owned by it, in order."""
    owner = reference(root)
    others = [(names.core(plan.namespace, "configmaps"), manifests.config_map(plan, owner))]
    if kind.needs_service:
        others.insert(0, (names.core(plan.namespace, "services"), manifests.service(plan, owner)))
    return others


def reference(root: Json) -> Json:
    """Owner reference to a root object; without `blockOwnerDeletion`, which needs rights that nobody should give."""
    meta = root["metadata"]
    return {"apiVersion": root["apiVersion"], "kind": root["kind"], "name": meta["name"], "uid": meta["uid"]}


def _root_metadata(plan: Plan) -> Json:
    meta = manifests.metadata(plan)
    meta["labels"] |= plan.grouping.job_labels
    return {**meta, "annotations": {names.WORKLOAD: names.fingerprint(plan.workload)}}


# --- job ----------------------------------------------------------------------------------------------------------


def job(plan: Plan) -> Json:
    """An Indexed Job: one pod a node, no retries, and no failure that ends the other pods before they are read."""
    count = len(plan.workload.nodes)
    template = manifests.pod_template(plan, f"{plan.name}-0.{plan.name}.{plan.namespace}.svc")
    template["spec"]["subdomain"] = plan.name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _root_metadata(plan),
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


# --- trainjob -----------------------------------------------------------------------------------------------------


def training_runtime(plan: Plan) -> list[Placed]:
    """The runtime that a TrainJob refers to; the webhook wants to find it before the TrainJob comes."""
    template = manifests.pod_template(plan, f"{plan.name}-node-0-0.{plan.name}.{plan.namespace}.svc")
    node = {
        "name": manifests.CONTAINER,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimitPerIndex": 0, "activeDeadlineSeconds": plan.deadline_s, "template": template},
        },
    }
    body = {
        "apiVersion": TRAINER,
        "kind": "TrainingRuntime",
        "metadata": manifests.metadata(plan),
        "spec": {
            "mlPolicy": {
                "numNodes": len(plan.workload.nodes),
                "torch": {"numProcPerNode": plan.workload.ranks_per_node},
            },
            "template": {"spec": {"network": {"publishNotReadyAddresses": True}, "replicatedJobs": [node]}},
        },
    }
    return [(names.grouped(TRAINER, plan.namespace, "trainingruntimes"), body)]


def train_job(plan: Plan) -> Json:
    """A TrainJob: Kubeflow Trainer makes a JobSet of it, and that the Indexed Job."""
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": _root_metadata(plan),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": plan.name},
            "trainer": {"numNodes": len(plan.workload.nodes), "numProcPerNode": plan.workload.ranks_per_node},
        },
    }


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("job", "batch/v1", "jobs", job, needs_service=True),
        Kind(
            "trainjob",
            TRAINER,
            "trainjobs",
            train_job,
            before=training_runtime,
            longest=46,
            remedy="launch kind trainjob needs Kubeflow Trainer v2 (and JobSet) in the cluster",
        ),
    )
}
JOB = KINDS["job"]
