"""A pod as far as a run must know it, and what its states mean.

Kubernetes spreads one fact over phase, reason, conditions and container states, and rewrites some of them later (a
kubelet that restarts may fail a pod that had completed). Here a pod becomes one flat value, and words become classes
by tables.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from k8s.gateway import Json

KEPT = ("name", "uid", "labels", "creationTimestamp", "deletionTimestamp")
INDEX = "batch.kubernetes.io/job-completion-index"


def trim(pod: Json) -> Json:
    """What this room needs of a Pod object."""
    meta, status = pod["metadata"], pod.get("status") or {}
    conditions = [
        {key: item.get(key, "") for key in ("type", "status", "reason", "message")}
        for item in status.get("conditions") or []
        if item.get("type") in ("PodScheduled", "DisruptionTarget")
    ]
    containers = status.get("containerStatuses") or []
    return {
        "metadata": {key: meta[key] for key in KEPT if key in meta}
        | {"index": (meta.get("annotations") or {}).get(INDEX, "")},
        "spec": {"nodeName": pod.get("spec", {}).get("nodeName", "")},
        "status": {
            **{key: status.get(key, "") for key in ("phase", "reason", "message")},
            "conditions": conditions,
            "state": containers[0].get("state") or {} if containers else {},
            "imageID": containers[0].get("imageID", "") if containers else "",
        },
    }


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a run."""

    name: str
    node: str
    index: int
    phase: str
    reason: str
    """Why a kubelet or controller refused or ended it (`Evicted`, `UnexpectedAdmissionError`), or its end's reason."""
    message: str
    scheduled: bool
    schedule_words: str
    waiting: str
    """Why the container does not run yet: `ContainerCreating`, `ErrImagePull` …"""
    waiting_words: str
    started: float
    """Epoch seconds; 0 while the container never ran."""
    finished: float
    code: int | None
    """Exit code of the container, None while there is none."""
    note: str
    """The termination message."""
    leaving: bool
    disrupted: str
    image_id: str

    @property
    def running(self) -> bool:
        """The container has begun and not ended."""
        return self.started > 0 and self.code is None and self.phase not in ("Succeeded", "Failed")

    @property
    def over(self) -> bool:
        """It will do nothing more."""
        return self.code is not None or self.phase in ("Succeeded", "Failed")

    def exits(self) -> dict[int, int]:
        """Exit codes by rank, as the launcher left them; empty where it could not."""
        return {int(rank): int(code) for rank, code in self.digest().get("exits", {}).items()}

    def ended(self, rank: int = -1) -> float:
        """Epoch seconds at which a rank, or the first that failed, ended; the kubelet knows whole seconds only."""
        digest = self.digest()
        ends = digest.get("ends", {})
        bad = [ends[name] for name, code in digest.get("exits", {}).items() if code and name in ends]
        return float(ends.get(str(rank)) or min(bad, default=self.finished))

    @property
    def killed(self) -> bool:
        """Ended by the kernel: out of memory, a bad access. Aborts do not count, the victims of others abort too."""
        return self.reason == "OOMKilled" or any(-code in KILLING for code in self.exits().values())

    def digest(self) -> dict[str, Any]:
        """The launcher's termination message: `exits`, and `bytes` and `sha256` of all that the pod printed."""
        try:
            note = json.loads(self.note)
        except ValueError:
            return {}
        return note if isinstance(note, dict) and isinstance(note.get("exits"), dict) else {}


def pod_of(item: Json) -> Pod:
    """A trimmed Pod object as one flat value."""
    meta, status = item["metadata"], item["status"]
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    scheduled = conditions.get("PodScheduled", {})
    disrupted = conditions.get("DisruptionTarget", {})
    state = status["state"]
    waiting, running, ended = (state.get(key) or {} for key in ("waiting", "running", "terminated"))
    return Pod(
        name=str(meta["name"]),
        node=str(item["spec"]["nodeName"]),
        index=int(meta["index"] or 0),
        phase=str(status["phase"]),
        reason=str(status["reason"] or ended.get("reason", "")),
        message=str(status["message"] or ended.get("message", "")),
        scheduled=bool(item["spec"]["nodeName"]),
        schedule_words=str(scheduled.get("message", "")) if scheduled.get("status") == "False" else "",
        waiting=str(waiting.get("reason", "")),
        waiting_words=str(waiting.get("message", "")),
        started=epoch(running.get("startedAt") or ended.get("startedAt")),
        finished=epoch(ended.get("finishedAt")),
        code=int(ended["exitCode"]) if "exitCode" in ended else None,
        note=str(ended.get("message", "")),
        leaving="deletionTimestamp" in meta,
        disrupted=f"{disrupted['reason']}: {disrupted['message']}" if disrupted.get("status") == "True" else "",
        image_id=str(status["imageID"]),
    )


def epoch(text: str | None) -> float:
    """Epoch seconds of a Kubernetes time; 0 for none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


KILLING = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL})
NEVER_PULLED = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Nothing will ever come of waiting for these."""
PULL_TROUBLE = NEVER_PULLED | {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"}
CREATE_TROUBLE = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
        "PostStartHookError",
    }
)
CANNOT_START = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
GPU_LOST = re.compile(r"(?i)unhealthy|gpu is lost|gpu.{0,40}lost|nvml|xid|unknown error")
"""Words in a kubelet's refusal that are evidence of a broken accelerator."""

NODES_AVAILABLE = re.compile(r"\d+/\d+ nodes are available")
EMPTY_TALK = re.compile(r"optimistic rejection|waiting for|rejected due to timeout|No preemption victims found")


def informative(messages: Iterable[str]) -> str:
    """The scheduler's words that say most: the last condition can be empty talk while an older event has the reason."""
    words = [message.strip() for message in messages if message.strip()]
    return max(
        words, key=lambda text: (bool(NODES_AVAILABLE.search(text)), not EMPTY_TALK.match(text), len(text)), default=""
    )
