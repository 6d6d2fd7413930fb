"""How a run ended → checks and hints: states that leave nothing to measure, exits, and whom the errors point at.

A node is accused only by evidence that names it: a hardware event, the first rank that failed, the peer in a NCCL
error. A lost node, a run we stopped and a run that never started accuse nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from criteria import transport
from criteria.model import Check, Conditions, Ended, Exit, Hint, Reason
from criteria.peers import among_ranks
from measure import Measurement

NOT_RUN: Mapping[str, Reason] = {
    "cancelled": Reason.CANCELLED,
    "unschedulable": Reason.UNSCHEDULABLE,
    "launch_failed": Reason.LAUNCH_FAILED,
}
"""States in which the machine was not tried: the case errs, it does not fail."""
INTERRUPTED: Mapping[str, Reason] = {
    "unhealthy": Reason.HARDWARE_FAILURE_DETECTED,
    "lost": Reason.LOST,
}
"""States in which the numbers say nothing any more."""
BROKEN: Mapping[str, Reason] = {
    "failed": Reason.WORKLOAD_FAILED,
    "stalled": Reason.STALLED,
    "timed_out": Reason.TIMED_OUT,
}
APPLICATION_XIDS = frozenset({13, 31, 43, 45})
"""Xids that a program's own error raises, or the end of a process: they accuse no hardware (NVIDIA, "Xid Errors")."""
_EVENT_KINDS = {"unhealthy": "health", "lost": "lost"}


def interrupted(conditions: Conditions) -> Check | None:
    """The one check of a run that was not tried or was cut off by its nodes; None where the run says something."""
    ended = conditions.ended
    reason = NOT_RUN.get(ended.state) or INTERRUPTED.get(ended.state)
    if reason is None:
        return None
    events = [event for event in ended.events if event.kind == _EVENT_KINDS.get(ended.state)]
    words = "; ".join(f"{event.node}: {event.message}" for event in events) or ended.message or ended.state
    if reason is Reason.LOST:
        words += " (the node went away in the middle; nobody is accused)"
    return Check("state", ok=False, text=words, expected="succeeded", source="always on", reason=reason)


def exits(conditions: Conditions) -> Check:
    """Whether the run and every rank ended well, with the first failing rank where not."""
    ended = conditions.ended
    bad = failing(ended)
    reason = BROKEN.get(ended.state) or (Reason.WORKLOAD_FAILED if bad else None)
    if reason is None and ended.state != "succeeded":
        reason = Reason.WORKLOAD_FAILED
    running = [each for each in ended.exits if each.code is None]
    if reason is None and running:
        first = running[0]
        return Check(
            "exitCode",
            ok=False,
            text=f"the run is said to have succeeded, and rank {first.rank} on {first.node} has not ended"
            + (f" (nor have {len(running) - 1} others)" if len(running) > 1 else ""),
            expected=0,
            source="always on",
            reason=Reason.NO_MEASUREMENT,
        )
    if reason is None:
        return Check("exitCode", ok=True, text="every rank exited 0", value=0, expected=0, source="always on")
    return Check(
        "exitCode",
        ok=False,
        text=_words(ended, reason, bad),
        value=float(bad[0].code) if bad and bad[0].code is not None else None,
        expected=0,
        source="always on",
        reason=reason,
    )


BEHIND = "behind the others"
"""What a cluster writes into the exit of the rank that all the others were waiting for."""


def failing(ended: Ended) -> list[Exit]:
    """Ranks that exited non-zero, the first one first."""
    bad = [each for each in ended.exits if each.code not in {0, None}]
    return sorted(bad, key=lambda each: (each.at, each.rank))


def _words(ended: Ended, reason: Reason, bad: list[Exit]) -> str:
    if reason is not Reason.WORKLOAD_FAILED:
        return ended.message or {Reason.STALLED: "no new output", Reason.TIMED_OUT: "time limit reached"}[reason]
    if not bad:
        return ended.message or f"the run ended {ended.state}"
    first = bad[0]
    how = f"was killed by signal {-first.code}" if first.code and first.code < 0 else f"exited with code {first.code}"
    why = first.reason or _last_line(first.tail) or ended.message
    others = f"; {len(bad) - 1} more ranks failed after it" if len(bad) > 1 else ""
    return f"rank {first.rank} on {first.node} {how}" + (f": {why}" if why else "") + others


def _last_line(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def hints(measurement: Measurement | None, conditions: Conditions) -> tuple[Hint, ...]:
    """Nodes that this run's evidence names, each once, the strongest evidence first."""
    found: dict[tuple[str, str], Hint] = {}
    for hint in (*_event_hints(conditions.ended), *_exit_hints(conditions.ended), *_log_hints(measurement, conditions)):
        found.setdefault((hint.node, hint.peer), hint)
    return tuple(found.values())


def _event_hints(ended: Ended) -> Iterator[Hint]:
    for event in ended.events:
        if event.kind == "health":
            yield Hint(event.node, event.message)


def _exit_hints(ended: Ended) -> Iterator[Hint]:
    if ended.state == "failed" and (bad := failing(ended)):
        yield Hint(bad[0].node, f"rank {bad[0].rank} failed first (code {bad[0].code})")
    if ended.state == "stalled":
        for each in ended.exits:
            if BEHIND in each.reason:
                yield Hint(each.node, f"rank {each.rank} was behind the others when the run stalled")


def _log_hints(measurement: Measurement | None, conditions: Conditions) -> Iterator[Hint]:
    if measurement is None:
        return
    places = {each.rank: each.node for each in conditions.ended.exits}
    for entry in measurement.per_rank:
        if isinstance(entry.get("rank"), int) and entry.get("node"):
            places.setdefault(entry["rank"], str(entry["node"]))
    for event in measurement.events:
        if event.host and not (event.kind == "xid" and event.code in APPLICATION_XIDS):
            yield Hint(event.host, f"{event.kind} {event.code if event.code is not None else ''}: {event.what}".strip())
    for error in measurement.errors:
        node = (places.get(error.rank) if error.rank is not None else None) or error.host
        if node:
            yield Hint(node, error.what, peer=error.peer or "")
    yield from transport.hints(measurement, conditions)
    yield from _wrong_hints(measurement)
    yield from _counter_hints(measurement)
    if not conditions.collective:
        for outlier in among_ranks(measurement):
            yield Hint(outlier.name.split(" GPU ")[0], outlier.text)


def _wrong_hints(measurement: Measurement) -> Iterator[Hint]:
    """Ranks with wrong results where others had none; a reduction spreads an error to all, and then names nobody."""
    bad = {str(entry["node"]) for entry in measurement.per_rank if entry.get("wrong") and entry.get("node")}
    everyone = {str(entry["node"]) for entry in measurement.per_rank if entry.get("node")}
    if bad and len(bad) < len(everyone):
        for node in sorted(bad):
            yield Hint(node, "its ranks got wrong results, the others none")


def _counter_hints(measurement: Measurement) -> Iterator[Hint]:
    """Nodes whose own counters of damage moved during the run, where most nodes' did not; retries alone point at nobody
    (the receiver of a lossy path retries, whoever is to blame).
    """
    result = measurement.details.get("result")
    proof = result.get("proof") if isinstance(result, Mapping) else None
    moved = proof.get("moved") if isinstance(proof, Mapping) else None
    if not isinstance(moved, Mapping):
        return
    damaged = {str(node): [each for each in entries if _damage(each)] for node, entries in _lists(moved)}
    named = {node: entries for node, entries in damaged.items() if entries}
    if 2 * len(named) > (measurement.nodes or len(measurement.hosts) or 2 * len(named)):
        return
    for node, entries in named.items():
        first = entries[0]
        yield Hint(node, f"{first.get('device')} {first.get('counter')} grew by {first.get('delta')} during the run")


def _lists(moved: Mapping[object, object]) -> Iterator[tuple[object, list[object]]]:
    for node, entries in moved.items():
        if isinstance(entries, list):
            yield node, entries


def _damage(entry: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(entry, Mapping) and entry.get("kind") == "error"
