"""Objects as the API server gives them, with only what a test is about spelled out."""

from __future__ import annotations

from typing import Any

from cluster import Workload
from k8s import discovery, pods

Json = dict[str, Any]


def raw_node(name: str, *, gpus: int = 8, ready: str = "True", **more: Any) -> Json:
    labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    if gpus or more.get("promised"):
        labels.setdefault("nvidia.com/gpu.count", str(more.get("promised", gpus)))
        labels.setdefault("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReady", "message": ""}]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": more.get("spec", {}),
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "96", **more.get("allocatable", {})},
            "capacity": {"nvidia.com/gpu": str(more.get("promised", gpus))},
            "conditions": [*conditions, *more.get("conditions", [])],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        },
    }


def node(name: str, **more: Any) -> Json:
    return discovery.trim(raw_node(name, **more))


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(name: str, node_name: str = "", *, state: Json | None = None, **status: Any) -> pods.Pod:
    conditions = status.pop("conditions", [])
    meta: Json = {"name": name, "annotations": {pods.INDEX: status.pop("index", "0")}}
    if status.pop("leaving", False):
        meta["deletionTimestamp"] = "2026-12-01T10:00:00Z"
    full = {
        "metadata": meta,
        "spec": {"nodeName": node_name} if node_name else {},
        "status": {
            "phase": status.pop("phase", "Pending"),
            **status,
            "conditions": conditions,
            "containerStatuses": [{"state": state, "imageID": "sha256:1"}] if state else [],
        },
    }
    return pods.pod_of(pods.trim(full))


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


RUNNING: Json = {"running": {"startedAt": "2026-12-01T10:00:00Z"}}


def ended(code: int, reason: str = "", note: str = "", at: str = "2026-12-01T10:01:00Z") -> Json:
    words = reason or ("Error" if code else "Completed")
    times = {"startedAt": "2026-12-01T10:00:00Z", "finishedAt": at}
    return {"terminated": {"exitCode": code, "reason": words, "message": note, **times}}


def workload(*nodes: str, **more: Any) -> Workload:
    settled: dict[str, Any] = {
        "name": "nccl-all-reduce-full-scale-0123456789",
        "case": "nccl-all-reduce-full-scale",
        "entry": "nccl-all-reduce",
        "framework": "torch",
        "program": "collectives.py",
        "nodes": nodes or ("n1", "n2"),
        "ranks_per_node": 1,
        "backend": "gloo",
        "arguments": ("--collective=all_reduce", "--begin=1M", "--end=1M", "--iters=5", "--cycles=2"),
        "start_limit_s": 60.0,
        "time_limit_s": 120.0,
        "stall_limit_s": 60.0,
        **more,
    }
    return Workload(**settled)
