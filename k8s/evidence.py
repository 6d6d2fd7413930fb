"""What is left of a run's pods → the parts of a `Run`: exits by rank, seconds by phase, versions. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from cluster import RankExit
from k8s.course import Course
from k8s.plan import Plan

CLOCKS_S = 1.0
"""How far the clocks of two nodes may differ."""


def exits(course: Course, tails: Mapping[str, str]) -> tuple[RankExit, ...]:
    """One entry a rank where the launcher left its code, else one for the pod's first rank; failures have tails."""
    places = {node: k for k, node in enumerate(course.workload.nodes)}
    pods = [pod for pod in course.pods.values() if pod.node in places and (pod.started or pod.over)]
    earliest = min((pod.ended() for pod in pods if pod.code), default=0.0)
    origin = min((pod.started for pod in course.pods.values() if pod.started), default=0.0)
    found = []
    for pod in pods:
        first = places[pod.node] * course.workload.ranks_per_node
        reason = pod.reason if pod.reason not in ("Completed", "Error") else str(pod.digest().get("what", ""))
        codes: Mapping[int, int | None] = pod.exits() or {first: pod.code}
        for rank, code in codes.items():
            tail = tails.get(pod.node, "") if code != 0 else ""
            # What the kernel killed ended before the ranks that missed it; nodes' clocks are not that exact.
            cause = pod.killed and code not in (0, None) and pod.ended(rank) - earliest < CLOCKS_S
            end = earliest if cause else pod.ended(rank) + (0.001 if code else 0)
            at = max(0.0, end - origin) if code is not None else 0.0
            found.append(RankExit(rank, pod.node, code, reason if code else "", tail, round(at, 3)))
    return tuple(sorted(found, key=lambda item: item.rank))


def durations(course: Course, begun: float, ended: float) -> dict[str, float]:
    """Seconds by phase, by when we saw it begin; times are monotonic."""
    times = course.times
    marks = [
        ("queued", begun, times.get("scheduled")),
        ("pulling", times.get("scheduled"), times.get("started")),
        ("running", times.get("started"), ended),
    ]
    return {name: round(end - begin, 3) for name, begin, end in marks if begin is not None and end is not None}


def versions(course: Course, plan: Plan, kind: str) -> dict[str, str]:
    """What ran: image by name and digest, launch kind, and which platform rules changed what."""
    images = sorted({pod.image_id for pod in course.pods.values() if pod.image_id})
    found = {"image": plan.image, "launchKind": kind}
    if images:
        found["imageID"] = ", ".join(images[:4])
    if plan.patch.applied:
        found["platformRules"] = "; ".join(f"{rule}: {what}" for rule, what in plan.patch.applied)
    return found
