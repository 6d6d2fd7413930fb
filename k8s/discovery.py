"""Nodes as Kubernetes describes them → the inventory of a session: what is tested, in which order, and what is not.

Pure functions over dicts. A node of the target never vanishes: one whose driver died still promises GPUs by label or
capacity, so it is listed as excluded with its reason, and a session that leaves nodes out says so (`INCOMPLETE`).
What labels mean is data (`labels.yaml`).
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from catalog import read_yaml
from cluster import Excluded, Inventory, Node, topology_order
from k8s.gateway import Json
from k8s.health import Watcher
from k8s.quantity import amount
from k8s.selection import selected, tolerates
from k8s.settings import Settings

CORDONED = "node.kubernetes.io/unschedulable"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
SHARED_NICS = 32
"""An RDMA resource with more than this is a number of shares of shared NICs, not of NICs."""
CONDITION_FIELDS = ("type", "status", "reason", "message")
DROPPED_LABELS = ("feature.node.kubernetes.io/",)


def trim(node: Json) -> Json:
    """What this room needs of a Node object: no images, no heartbeats, so that only changes that matter are changes."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    labels = meta.get("labels") or {}
    return {
        "metadata": {
            "name": meta["name"],
            "uid": meta.get("uid", ""),
            "labels": {key: value for key, value in labels.items() if not key.startswith(DROPPED_LABELS)},
        },
        "spec": {key: spec[key] for key in ("providerID", "unschedulable", "taints") if spec.get(key)},
        "status": {
            "allocatable": status.get("allocatable") or {},
            "capacity": status.get("capacity") or {},
            "conditions": [
                {key: condition.get(key, "") for key in CONDITION_FIELDS}
                for condition in status.get("conditions") or []
            ],
            "nodeInfo": status.get("nodeInfo") or {},
        },
    }


@lru_cache(maxsize=1)
def meanings() -> Mapping[str, Any]:
    """`labels.yaml`, read once."""
    return dict(read_yaml(Path(__file__).with_name("labels.yaml")))


def inventory(raw: Sequence[Json], settings: Settings, watcher: Watcher, server: str = "") -> Inventory:
    """The snapshot: nodes that can be tested in topology order, and the others of the target with their reasons."""
    wanted = [item for item in raw if in_target(item, settings, any(promised(node) for node in raw))]
    gpus_wanted = settings.gpus_per_node or _usual_gpus(wanted)
    nodes, excluded = [], []
    for item in wanted:
        why = unfit(item, settings, gpus_wanted, watcher)
        name = str(item["metadata"]["name"])
        if why:
            excluded.append(Excluded(name, why))
        else:
            nodes.append(node_of(item, settings))
    platforms = Counter(node.platform for node in nodes)
    platform = settings.platform or (platforms.most_common(1)[0][0] if platforms else "onprem")
    versions = {"kubernetes": server} if server else {}
    kubelets = Counter(str(item["status"]["nodeInfo"].get("kubeletVersion", "")) for item in wanted)
    if kubelets:
        versions["kubelet"] = kubelets.most_common(1)[0][0]
    ordered = topology_order(_informative(nodes))
    by = "settings" if settings.platform else "spec.providerID and labels of nodes"
    return Inventory(ordered, tuple(sorted(excluded, key=lambda each: each.node)), platform, by, versions)


def in_target(node: Json, settings: Settings, gpus_somewhere: bool) -> bool:
    """Whether the user asked for this node; without any filter: nodes that promise GPUs, or on CPUs the workers."""
    target = settings.target
    filters = target.node_selector or target.match_expressions or target.node_names or target.taint_selectors
    if filters:
        return selected(node, target)
    if settings.backend != "gloo" and gpus_somewhere:
        return promised(node) > 0
    return not any(key in node["metadata"]["labels"] for key in CONTROL_PLANE)


def promised(node: Json) -> int:
    """GPUs that labels or capacity say the node should have, whatever its driver can offer now."""
    labels, capacity, words = node["metadata"]["labels"], node["status"]["capacity"], meanings()
    counts = [int(labels[key]) for key in words["count"] if str(labels.get(key, "")).isdigit()]
    counts += [int(amount(capacity[key])) for key in words["gpus"] if key in capacity]
    if not counts and any(labels.get(key) for key in words["product"]):
        return 1
    return max(counts, default=0)


def offered(node: Json) -> int:
    """GPUs that pods can have now."""
    allocatable = node["status"]["allocatable"]
    return sum(int(amount(allocatable[key])) for key in meanings()["gpus"] if key in allocatable)


def gpu_resource(node: Json) -> str:
    """Name of the resource that a pod asks for to get this node's GPUs; empty without GPUs."""
    allocatable = node["status"]["allocatable"]
    return next((str(key) for key in meanings()["gpus"] if int(amount(allocatable.get(key, "0")))), "")


def _usual_gpus(nodes: Iterable[Json]) -> int:
    """GPUs of most nodes: what a node must offer when nobody said a number."""
    counts = Counter(offered(node) for node in nodes if offered(node))
    return counts.most_common(1)[0][0] if counts else 0


def unfit(node: Json, settings: Settings, gpus_wanted: int, watcher: Watcher) -> str:
    """Why this node of the target cannot be tested; empty when it can. All reasons, not only the first."""
    labels, spec = node["metadata"]["labels"], node["spec"]
    why = []
    ready = next((item for item in node["status"]["conditions"] if item["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        why.append(f"NotReady: {ready['message'] or ready['reason']}" if ready else "NotReady: no Ready condition yet")
    meant = any(taint.get("key") == CORDONED for taint in settings.target.taint_selectors)
    if spec.get("unschedulable") and not meant:
        why.append("cordoned")
    why += [
        f"taint {taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"
        for taint in spec.get("taints", [])
        if taint["key"] != CORDONED and not taint["key"].startswith("node.kubernetes.io/")
        if not tolerates(taint, settings)
    ]
    if settings.backend != "gloo" and promised(node):
        here = offered(node)
        if here < gpus_wanted or not here:
            why.append(f"GPUs: {here} allocatable, {max(gpus_wanted, 1)} needed (labels promise {promised(node)})")
        product = product_of(labels)
        if product.endswith("-SHARED") or "-MIG-" in product:
            why.append(f"GPUs are shared or split ({product}): no exclusive measurement is possible")
    why += [f"health: {hit.text}" for hit in watcher.hits(node, node) if hit.kind == "health"]
    return "; ".join(why)


def node_of(item: Json, settings: Settings) -> Node:
    """One Node object in the suite's words."""
    meta, labels = item["metadata"], item["metadata"]["labels"]
    info = item["status"]["nodeInfo"]
    identity = {
        "uid": meta["uid"],
        "providerID": item["spec"].get("providerID", ""),
        "systemUUID": info.get("systemUUID", ""),
        "bootID": info.get("bootID", ""),
        "kernel": info.get("kernelVersion", ""),
        "os": info.get("osImage", ""),
        "kubelet": info.get("kubeletVersion", ""),
        "runtime": info.get("containerRuntimeVersion", ""),
        "driver": labels.get("nvidia.com/cuda.driver-version.full", ""),
    }
    return Node(
        name=str(meta["name"]),
        accelerators=offered(item) or (promised(item) if settings.backend == "gloo" else 0),
        product=product_of(labels),
        platform=settings.platform or platform_of(item),
        topology=topology_of(labels, settings.topology_keys),
        nvlink_domain=nvlink_of(labels),
        nics=nics_of(item["status"]["allocatable"]),
        identity={key: value for key, value in identity.items() if value},
        labels=labels,
    )


def product_of(labels: Mapping[str, str]) -> str:
    """The accelerator's product as its label says it."""
    return next((labels[key] for key in meanings()["product"] if labels.get(key)), "")


def topology_of(labels: Mapping[str, str], keys: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """(level, domain) pairs from outermost to innermost; with `keys` those labels are the levels."""
    levels = [(key, [key]) for key in keys] or [(str(item["level"]), item["keys"]) for item in meanings()["topology"]]
    found = ((level, next(filter(known, map(labels.get, keys)), "")) for level, keys in levels)
    return tuple((level, domain) for level, domain in found if domain)


def known(value: str | None) -> bool:
    """Whether a label's value says something; some writers fill in words for "I do not know"."""
    return value is not None and value.lower() not in meanings()["unknown"]


def nvlink_of(labels: Mapping[str, str]) -> str:
    """The NVLink domain that spans nodes. A cluster UUID of zeros means that NVLink ends at the node."""
    value = next((labels[key] for key in meanings()["nvlink"] if known(labels.get(key))), "")
    return "" if value.startswith("00000000-0000-0000-0000-000000000000") else value


def nics_of(allocatable: Mapping[str, str]) -> int:
    """NICs that a device plugin announces; 0 where none does, or where it announces shares."""
    for rule in meanings()["nics"]:
        counts = [
            int(amount(value)) for key, value in allocatable.items() if fnmatch.fnmatchcase(key, rule["resource"])
        ]
        if 0 < sum(counts) <= SHARED_NICS:
            return sum(counts)
    return 0


def platform_of(node: Json) -> str:
    """Whose machine it is."""
    provider, labels = str(node["spec"].get("providerID", "")), node["metadata"]["labels"]
    for rule in meanings()["platforms"]:
        if rule.get("label") in labels or (rule.get("provider") and provider.startswith(rule["provider"])):
            return str(rule["name"])
    return "onprem"


def _informative(nodes: Sequence[Node]) -> list[Node]:
    """Without levels that say nothing: every node alone in its domain (a host level)."""
    members = Counter(pair for node in nodes for pair in node.topology)
    sizes: dict[str, int] = {}
    for (level, _), count in members.items():
        sizes[level] = max(sizes.get(level, 0), count)
    return [
        _with_levels(node, {level for level, size in sizes.items() if size > 1 or len(nodes) == 1}) for node in nodes
    ]


def _with_levels(node: Node, levels: set[str]) -> Node:
    return replace(node, topology=tuple(pair for pair in node.topology if pair[0] in levels))
