"""One workload on its way to the cluster: everything decided, nothing sent.

Between the suite's `Workload` and manifests stands this object, so that the launch kinds only write down what is
settled here: image, resources by name, labels, how the nodes are addressed, who owns it.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cluster import ClusterError, Workload
from k8s import names
from k8s.discovery import gpu_resource
from k8s.gang import Grouping, grouping, wanted
from k8s.gateway import Json
from k8s.platforms import Patch
from k8s.quantity import amount
from k8s.settings import Settings

HOSTNAME = "kubernetes.io/hostname"
FOLDER = "/clusterproof"
"""Where the program files are in the pods."""
SCRATCH = "/tmp"  # noqa: S108 — an emptyDir of the pod's own
PROGRAM_GRACE_S = 120
"""What the cluster's own deadline adds to ours: it is the last resort, when the runner is gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A workload with all decisions of this cluster made."""

    workload: Workload
    settings: Settings
    namespace: str
    name: str
    image: str
    resources: Mapping[str, str]
    hostnames: tuple[str, ...]
    """The group's hostname labels, in rank order; empty where a node has none and names must do."""
    other_hostnames: tuple[str, ...] = ()
    """Those of all other nodes, where that list is the shorter one; the pods are then kept off these."""
    patch: Patch = field(default_factory=Patch)
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
    grouping: Grouping = field(default_factory=Grouping)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Of everything that is created: session and run, and the user's."""
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def uses_gpus(self) -> bool:
        """Whether the program talks to accelerators."""
        return self.workload.backend == "nccl"

    @property
    def deadline_s(self) -> int:
        """The cluster's last resort: start limits of queue and images, the run, and grace."""
        work = self.workload
        return int(2 * work.start_limit_s + work.time_limit_s) + PROGRAM_GRACE_S

    def owners(self) -> list[Json]:
        """Owner references of what the runner creates: its own Job, where it runs in one."""
        owner = self.settings.owner
        if owner is None:
            return []
        return [{"apiVersion": "batch/v1", "kind": "Job", "name": owner.name, "uid": owner.uid}]

    def command(self) -> list[str]:
        """What a pod starts: the launcher, and behind it what each rank runs."""
        work = self.workload
        if work.framework == "torch":
            program = ["python3", "-u", f"{{here}}/{Path(work.program).name}", *work.arguments]
        else:
            program = [work.program, *work.arguments]
        return ["python3", "-u", f"{FOLDER}/launcher.py", *program]

    def files(self) -> dict[str, str]:
        """The program files by name: launcher, node list in rank order, and the suite's program."""
        files = {
            "launcher.py": (importlib.resources.files("k8s") / "launcher.py").read_text(encoding="utf-8"),
            "nodes": "\n".join(self.workload.nodes) + "\n",
        }
        if self.workload.framework == "torch":
            name = Path(self.workload.program).name
            files[name] = (importlib.resources.files("workloads") / name).read_text(encoding="utf-8")
        return files


def make(
    workload: Workload,
    settings: Settings,
    namespace: str,
    nodes: Mapping[str, Json],
    *,
    patch: Patch,
    longest: int = names.LONGEST,
) -> Plan:
    """Settle everything. Raises `ClusterError` where something that only the user can say is missing."""
    image = settings.image or workload.image or patch.image
    if not image:
        raise ClusterError(
            f"no image for {workload.entry}: the platform names none; give one with `image` in the certification's "
            "options (any image with PyTorch runs the torch programs)"
        )
    group = set(workload.nodes)
    hosts = [hostname(nodes[name]) for name in workload.nodes]
    others = [hostname(node) for name, node in nodes.items() if name not in group]
    extra = workload.extra
    secrets = extra.get("imagePullSecrets") or settings.image_pull_secrets
    name = names.run_name(settings.session, workload.name, longest)
    group_as = grouping(wanted(settings.gang, extra), namespace, name, len(workload.nodes))
    return Plan(
        workload=workload,
        settings=settings,
        namespace=namespace,
        name=name,
        image=image,
        resources=resources_of(workload, settings, nodes[workload.nodes[0]], patch),
        hostnames=tuple(hosts) if all(hosts) else (),
        other_hostnames=tuple(others) if all(others) and all(hosts) and 2 * len(others) < len(hosts) else (),
        patch=patch,
        image_pull_secrets=tuple(str(item) for item in secrets),
        priority_class=str(extra.get("priorityClassName") or settings.priority_class),
        grouping=group_as,
        labels={
            **settings.labels,
            names.MANAGED_BY: names.US,
            names.SESSION: names.label(settings.session),
            names.RUN: name,
        },
        annotations=settings.annotations,
    )


def hostname(node: Json) -> str:
    """The label that affinity goes by; it need not be the node's name."""
    return str(node["metadata"]["labels"].get(HOSTNAME, ""))


def resources_of(workload: Workload, settings: Settings, node: Json, patch: Patch) -> dict[str, str]:
    """Requests of one pod by resource name: GPUs, the platform's, the entry's and the user's, the later winning."""
    wanted: dict[str, str] = {}
    gpu = gpu_resource(node)
    if workload.backend == "nccl" and gpu:
        wanted[gpu] = str(workload.ranks_per_node)
    if workload.backend == "nccl":
        wanted |= {name: value for name, value in patch.resources.items() if value is not None}
    nics = workload.extra.get("nicResourceName")
    if nics:
        wanted[str(nics)] = str(workload.extra.get("mlnxPerNode", 1))
    wanted |= {**workload.resources, **settings.resources}
    return {name: value for name, value in wanted.items() if amount(value)}


def lacking(plan: Plan, nodes: Mapping[str, Json]) -> str:
    """Which nodes can never hold a pod of this plan, in words: node, resource, need and have. Empty when all can."""
    problems = []
    for name in plan.workload.nodes:
        have = nodes[name]["status"]["allocatable"]
        problems += [
            f"{name} has {have.get(resource, '0')} of {resource}, {need} needed"
            for resource, need in plan.resources.items()
            if amount(have.get(resource, "0")) < amount(need)
        ]
    more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
    return "; ".join(problems[:10]) + more


def env_of(plan: Plan) -> list[dict[str, Any]]:
    """The pod's environment, by name: platform, then the entry's and user's, then what the launcher needs."""
    work = plan.workload
    named: dict[str, Any] = {name: value for name, value in plan.patch.env.items() if value is not None}
    named |= {name: with_rail(value, plan.patch.rails) for name, value in work.env.items()}
    if not plan.uses_gpus:
        # Programs that choose for themselves must not find a GPU that the pod happens to see.
        named.setdefault("CUDA_VISIBLE_DEVICES", "")
    named |= {
        "CLUSTERPROOF_BACKEND": work.backend,
        "CLUSTERPROOF_RANKS_PER_NODE": str(work.ranks_per_node),
        "CLUSTERPROOF_MEETING_S": str(int(min(work.start_limit_s, 300))),
        "HOME": SCRATCH,
    }
    fields = {"CLUSTERPROOF_NODE": "spec.nodeName", "CLUSTERPROOF_POD_IP": "status.podIP"}
    return [
        *({"name": name, "value": str(value)} for name, value in sorted(named.items())),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


_RAIL = re.compile(r"\{rail:(\d+)\}")


def with_rail(value: str, rails: Sequence[str]) -> str:
    """`{rail:2}` in a value becomes the third NIC's name: the platform's, or as Mellanox drivers count them."""
    return _RAIL.sub(lambda hit: rails[int(hit[1])] if int(hit[1]) < len(rails) else f"mlx5_{hit[1]}", value)
