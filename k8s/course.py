"""The course of one run: what has been seen of its pods → how it stands, and at some point how it ended.

No I/O and no clock of its own: observations come in with their time, so that every rule here is tested without a
cluster. Waiting in a queue, pulling an image and running are three phases with a limit each; queued time never counts
as running time. What was seen once stays: a pod's result is taken when it ended, and nothing that happens to the object
later overwrites it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cluster import NodeEvent, RunState, Workload
from k8s.gateway import Json
from k8s.pods import CANNOT_START, CREATE_TROUBLE, GPU_LOST, NEVER_PULLED, PULL_TROUBLE, Pod, informative

SETTLE_S = 8.0
"""After the first failure the other ranks get this long to end by themselves: how they end is evidence."""
TROUBLE_S = 20.0
"""A failed pull or creation may be a hiccup; after this long it is not."""
NAMED = 8


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run ended."""

    state: RunState
    message: str
    events: tuple[NodeEvent, ...] = ()


@dataclass
class Course:
    """One run's observations so far."""

    workload: Workload
    begun: float
    """Monotonic time of the launch; for an adopted run, when it was launched."""
    pods: dict[str, Pod] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """When each of `scheduled`, `started`, `failed`, `trouble` was first seen, monotonic."""
    refused: str = ""
    """Why the cluster creates no pods (admission, quota), as the runner found out."""
    scheduler_words: list[str] = field(default_factory=list)

    @property
    def phase(self) -> str:
        """For the progress line."""
        count, pods = len(self.workload.nodes), self.pods.values()
        if "started" in self.times:
            return f"running {sum(pod.running for pod in pods)}/{count}"
        if "scheduled" in self.times:
            return f"pulling, {sum(pod.started > 0 for pod in pods)}/{count} started"
        return f"queued, {sum(pod.scheduled for pod in pods)}/{count} scheduled"

    @property
    def missing(self) -> int:
        """Pods that do not exist."""
        return max(0, len(self.workload.nodes) - len(self.pods))

    def see(self, pods: Iterable[Pod], root: Json | None, now: float) -> Ending | None:
        """Take an observation in; the ending, if this is one."""
        self._remember(pods)
        seen = list(self.pods.values())
        self.scheduler_words += [
            pod.schedule_words
            for pod in seen
            if pod.schedule_words and pod.schedule_words not in self.scheduler_words[-NAMED:]
        ]
        if not self.missing and all(pod.scheduled for pod in seen):
            self.times.setdefault("scheduled", now)
        if not self.missing and all(pod.started or pod.over for pod in seen):
            self.times.setdefault("started", now)
        return (
            self._interfered()
            or self._failed(now)
            or self._succeeded()
            or self._condition(root)
            or self._not_started(now)
            or self._too_long(now)
        )

    def _remember(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            old = self.pods.get(pod.name)
            if old is not None and old.over:
                continue
            self.pods[pod.name] = replace(pod, node=pod.node or (old.node if old else ""))

    # --- endings ----------------------------------------------------------------------------------------------------

    def _interfered(self) -> Ending | None:
        """Refused by a kubelet, evicted, preempted, deleted by somebody."""
        for pod in self.pods.values():
            if pod.code == 0 or pod.phase == "Succeeded":
                continue
            words = f"{pod.reason}: {pod.message}".strip(": ")
            if pod.disrupted or pod.reason in ("Evicted", "Preempting", "NodeLost", "Shutdown", "Terminated"):
                what = f"the pod on {pod.node} was taken away: {pod.disrupted or words}"
                return Ending(RunState.LOST, what, (NodeEvent(pod.node, "invalid", pod.disrupted or words),))
            if pod.reason == "UnexpectedAdmissionError":
                if GPU_LOST.search(pod.message):
                    event = NodeEvent(pod.node, "health", words)
                    return Ending(RunState.UNHEALTHY, f"{pod.node} refused the pod: {words}", (event,))
                return Ending(RunState.LAUNCH_FAILED, f"{pod.node} refused the pod: {words}")
            if pod.phase == "Failed" and pod.code is None:
                return Ending(RunState.UNSCHEDULABLE, f"{pod.node} refused the pod: {words}")
            if pod.leaving and not pod.over:
                return Ending(
                    RunState.LOST,
                    f"the pod on {pod.node or 'no node yet'} was deleted by somebody else",
                    (NodeEvent(pod.node, "invalid", "pod deleted"),) if pod.node else (),
                )
        return None

    def _failed(self, now: float) -> Ending | None:
        bad = sorted((pod for pod in self.pods.values() if pod.code), key=lambda pod: (not pod.killed, pod.ended()))
        if not bad:
            return None
        since = self.times.setdefault("failed", now)
        everybody = not self.missing and all(pod.over for pod in self.pods.values())
        if now - since < SETTLE_S and not everybody:
            return None
        first = bad[0]
        if len(bad) == len(self.workload.nodes) and all(pod.reason in CANNOT_START or pod.code == 127 for pod in bad):
            return Ending(RunState.LAUNCH_FAILED, f"on every node: {first.digest().get('what') or first.message}")
        more = f"; {len(bad) - 1} more failed after it" if len(bad) > 1 else ""
        return Ending(RunState.FAILED, f"{_end_of(first)} on {first.node}{more}")

    def _succeeded(self) -> Ending | None:
        done = not self.missing and all(pod.code == 0 or pod.phase == "Succeeded" for pod in self.pods.values())
        return Ending(RunState.SUCCEEDED, "") if done else None

    def _condition(self, root: Json | None) -> Ending | None:
        for condition in ((root or {}).get("status") or {}).get("conditions") or []:
            if condition.get("type") != "Failed" or condition.get("status") != "True":
                continue
            words = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            if condition.get("reason") == "DeadlineExceeded":
                return Ending(RunState.TIMED_OUT, f"the cluster ended the run: {words}")
            if not self.pods:
                return Ending(RunState.LAUNCH_FAILED, words)
        return None

    def _not_started(self, now: float) -> Ending | None:
        if "started" in self.times:
            return None
        limit = self.workload.start_limit_s
        if self.missing and self.refused and ("quota" not in self.refused or now - self.begun > limit):
            return Ending(RunState.LAUNCH_FAILED, f"the cluster refuses the pods: {self.refused}")
        trouble = self._trouble(now)
        if trouble:
            return trouble
        if "scheduled" not in self.times:
            return self.unscheduled() if now - self.begun > limit else None
        if now - self.times["scheduled"] <= limit:
            return None
        late = [pod for pod in self.pods.values() if not pod.started]
        words = "; ".join(f"{pod.node}: {pod.waiting or 'not created'} {pod.waiting_words}" for pod in late[:NAMED])
        return Ending(RunState.LAUNCH_FAILED, f"still not started {limit:.0f} s after the pods were placed: {words}")

    def _trouble(self, now: float) -> Ending | None:
        bad = [pod for pod in self.pods.values() if pod.waiting in PULL_TROUBLE | CREATE_TROUBLE]
        if not bad:
            self.times.pop("trouble", None)
            return None
        since = self.times.setdefault("trouble", now)
        if now - since < TROUBLE_S and not any(pod.waiting in NEVER_PULLED for pod in bad):
            return None
        nodes = ", ".join(sorted(pod.node for pod in bad)[:NAMED])
        worst = max(bad, key=lambda pod: len(pod.waiting_words))
        return Ending(
            RunState.LAUNCH_FAILED,
            f"{worst.waiting} on {nodes} ({len(bad)} of {len(self.workload.nodes)} nodes): {worst.waiting_words}",
        )

    def unscheduled(self) -> Ending:
        """Not all pods were placed in time, in the scheduler's own words."""
        waiting = sum(not pod.scheduled for pod in self.pods.values()) + self.missing
        words = informative(self.scheduler_words) or "the scheduler says nothing"
        taken = {pod.node for pod in self.pods.values()}
        free = [node for node in self.workload.nodes if node not in taken]
        where = f" (none on {', '.join(free[:NAMED])})" if taken - {""} else ""
        return Ending(
            RunState.UNSCHEDULABLE,
            f"{waiting} of {len(self.workload.nodes)} pods not scheduled within {self.workload.start_limit_s:.0f} s"
            f"{where}: {words}",
        )

    def _too_long(self, now: float) -> Ending | None:
        limit = self.workload.time_limit_s
        if "started" in self.times and now - self.times["started"] > limit:
            late = [pod.node for pod in self.pods.values() if not pod.over]
            named = ", ".join(sorted(late)[:NAMED])
            return Ending(RunState.TIMED_OUT, f"not done after {limit:.0f} s; still running: {named}")
        return None


def _end_of(pod: Pod) -> str:
    """How a pod failed, in words: a rank's exit code or signal, and the runtime's reason."""
    ranks = {rank: code for rank, code in pod.exits().items() if code}
    why = f" ({pod.reason})" if pod.reason not in ("", "Error", "Completed") else ""
    if not ranks:
        words = pod.digest().get("what")
        return f"the pod ended with exit code {pod.code}{why}" + (f": {words}" if words else "")
    rank, code = next(iter(ranks.items()))
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    return f"rank {rank} {how}{why}"
