"""Plans written down as Kubernetes objects, in dicts: the parts that all launch kinds share.

One pod a node, pinned and spread by the scheduler's own means, because a pod whose node is set directly would bypass
quotas, gang schedulers and taints. `restartPolicy: Never` and no retries: the failure of one rank must leave the
others' logs where they can be read. CPU has no limit (throttling would slow NCCL's proxies down).
"""

from __future__ import annotations

from typing import Any

from k8s import names
from k8s.gateway import Json
from k8s.plan import FOLDER, HOSTNAME, SCRATCH, Plan, env_of
from k8s.selection import tolerations

CONTAINER = "node"
"""Kubeflow Trainer wants the container that is a training node to be called so; one name everywhere is simplest."""
NO_USER = 65534


def metadata(plan: Plan, owner: Json | None = None) -> Json:
    """Name, labels and owner of an object of this run."""
    return {
        "name": plan.name,
        "namespace": plan.namespace,
        "labels": dict(plan.labels),
        "ownerReferences": [owner] if owner else plan.owners(),
    }


def config_map(plan: Plan, owner: Json) -> Json:
    """The program files. Pods wait for it, so it is created last: whatever it needs exists by then."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(plan, owner),
        "immutable": True,
        "data": plan.files(),
    }


def service(plan: Plan, owner: Json) -> Json:
    """Gives pods their names in DNS before they are ready, so that they can find each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(plan, owner),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.RUN: plan.name}},
    }


def affinity(plan: Plan) -> Json:
    """Required node affinity to the group: its hostnames, or all but the others where those are fewer."""
    if plan.other_hostnames:
        terms = [_label_term("NotIn", plan.other_hostnames)]
    elif plan.hostnames:
        terms = [_label_term("In", plan.hostnames)]
    else:
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in plan.workload.nodes
        ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _label_term(operator: str, hosts: tuple[str, ...]) -> Json:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": operator, "values": sorted(hosts)}]}


def spread(plan: Plan) -> list[Json]:
    """One pod a host; cheaper for the scheduler than anti-affinity between thousands of pods."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {names.RUN: plan.name}},
        }
    ]


def container(plan: Plan, meeting: str, command: list[str] | None = None) -> Json:
    """The one container of a pod."""
    named = {name: path for name, path in plan.patch.mounts.items() if path}
    return {
        "name": CONTAINER,
        "image": plan.image,
        **({"imagePullPolicy": plan.settings.image_pull_policy} if plan.settings.image_pull_policy else {}),
        "command": command or plan.command(),
        "env": [*env_of(plan), {"name": "CLUSTERPROOF_MEETING", "value": meeting}],
        "resources": resources(plan),
        "securityContext": security(plan),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "program", "mountPath": FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": SCRATCH},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 — NCCL's own
            *({"name": name, "mountPath": path} for name, path in sorted(named.items())),
        ],
    }


def resources(plan: Plan) -> Json:
    """Requests, and limits for all but CPU."""
    limits = {name: value for name, value in plan.resources.items() if name != "cpu"}
    return {"requests": dict(plan.resources), "limits": limits}


def security(plan: Plan) -> Json:
    """Nothing but what the program needs: CPU programs run restricted, GPU programs as their image has it."""
    dropped: Json = {"drop": ["ALL"]}
    if plan.patch.capabilities and plan.uses_gpus:
        return {"capabilities": {"add": list(plan.patch.capabilities)}, "seccompProfile": {"type": "RuntimeDefault"}}
    context: Json = {
        "allowPrivilegeEscalation": False,
        "capabilities": dropped,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if not plan.uses_gpus:
        context |= {"runAsNonRoot": True, "runAsUser": NO_USER, "readOnlyRootFilesystem": True}
    return context


def pod_spec(plan: Plan, meeting: str, command: list[str] | None = None) -> Json:
    """The whole pod."""
    volumes = {name: dict(source) for name, source in plan.patch.volumes.items() if source}
    bears = [*tolerations(plan.settings), *(dict(item) for item in plan.patch.tolerations.values() if item)]
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "affinity": affinity(plan),
        "topologySpreadConstraints": spread(plan),
        "tolerations": bears,
        "containers": [container(plan, meeting, command)],
        "volumes": [
            {"name": "program", "configMap": {"name": plan.name}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            *({"name": name, **source} for name, source in sorted(volumes.items())),
        ],
    }
    if plan.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in plan.image_pull_secrets]
    if plan.priority_class:
        spec["priorityClassName"] = plan.priority_class
    if plan.grouping.scheduler:
        spec["schedulerName"] = plan.grouping.scheduler
    if plan.patch.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return spec


def pod_template(plan: Plan, meeting: str) -> Json:
    """Pod with labels and annotations."""
    annotations = {name: value for name, value in plan.patch.annotations.items() if value is not None}
    return {
        "metadata": {
            "labels": {**plan.grouping.pod_labels, **plan.labels},
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                **annotations,
                **plan.annotations,
                **plan.grouping.pod_annotations,
            },
        },
        "spec": pod_spec(plan, meeting),
    }
