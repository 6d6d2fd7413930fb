"""From everything that one case left (run, measurement, verdict, findings) to its record.

The message is what a person reads first, in JUnit, Allure, the short summary and a CI annotation alike, so it starts
with the finding: `suspects: n5, n12 | busbw 10.0 < 90.0 GB/s`; what was not decided begins with `inconclusive:`, what
could not run with `error:`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster import RankExit, Run, RunState
from criteria import Advice as Explained
from criteria import Check, Verdict
from reports.record import (
    Advice,
    CaseRecord,
    CaseVerdict,
    Criterion,
    Durations,
    Event,
    Evidence,
    IsolationRecord,
    MeasurementRecord,
)

MOST_RANKS = 256
UNDECIDED = frozenset({"not-reproduced", "inconclusive"})
"""Verdicts of an isolation that leave the failure of the case unexplained."""


def case_record(
    *,
    id: str,  # noqa: A002 - the record's own word
    domain: str,
    entry: str,
    scale: str,
    run: Run,
    verdict: Verdict,
    measurement: MeasurementRecord | None = None,
    transport: Mapping[str, Any] | None = None,
    isolation: IsolationRecord | None = None,
    lane: int | None = None,
    origin: float = 0.0,
    ended: float | None = None,
    tiers_loaded: Sequence[str] = (),
    counters: Mapping[str, Mapping[str, Any]] | None = None,
    identities: Mapping[str, Mapping[str, Any]] | None = None,
    platform_rules: Sequence[str] = (),
    advice: Sequence[Explained] = (),
    log: str = "",
) -> CaseRecord:
    """The record of a case that ran.

    `origin` is the session's start on the clock of the run; `ended` (same clock) the end of the isolation, if any.
    """
    outcome = decided(verdict, isolation)
    last = run.ended if ended is None else ended
    return CaseRecord(
        id=id,
        domain=domain,
        entry=entry,
        scale=scale,
        nodes=list(run.workload.nodes),
        verdict=outcome,
        reason="" if outcome == "passed" else str(verdict.reason or ""),
        message=message(outcome, verdict, isolation),
        value=verdict.value,
        expected=verdict.expected if isinstance(verdict.expected, int | float) else None,
        unit=verdict.unit,
        layer=run.workload.layer,
        backend=run.workload.backend,
        durations=Durations.model_validate({k: v for k, v in run.durations.items() if k in Durations.model_fields}),
        started=run.started - origin,
        ended=last - origin,
        lane=lane,
        measurement=measurement,
        criteria=[criterion(check) for check in verdict.checks],
        advice=[Advice(metric=each.metric, cause=each.cause, command=each.command, sign=each.sign) for each in advice],
        transport=dict(transport or {}),
        tiers_loaded=list(tiers_loaded),
        counters={node: dict(changed) for node, changed in (counters or {}).items()},
        identities={node: dict(devices) for node, devices in (identities or {}).items()},
        platform_rules=list(platform_rules),
        evidence=evidence(run),
        events=[Event(node=each.node, kind=each.kind, message=each.message, at=each.at) for each in run.events],
        leftovers=list(run.leftovers),
        log=log,
        isolation=isolation,
    )


def decided(verdict: Verdict, isolation: IsolationRecord | None) -> CaseVerdict:
    """The verdict of the case: a failure that isolation could not reproduce or explain is inconclusive."""
    if verdict.outcome == "failed" and isolation is not None and isolation.verdict in UNDECIDED:
        named = isolation.suspects or isolation.links or isolation.domains
        return "failed" if named else "inconclusive"
    return verdict.outcome


def message(outcome: CaseVerdict, verdict: Verdict, isolation: IsolationRecord | None) -> str:
    """The first line of everything that is said about the case; empty for a plain pass."""
    parts = [isolation.headline] if isolation is not None else []
    parts.append(verdict.message)
    text = " | ".join(part for part in parts if part)
    if outcome in {"error", "inconclusive"} and not text.startswith(f"{outcome}:"):
        return f"{outcome}: {text}"
    return "" if outcome == "passed" else text


def criterion(check: Check) -> Criterion:
    """The record of one check."""
    return Criterion(
        metric=check.metric,
        value=check.value,
        unit=check.unit,
        expected=check.expected,
        floor=check.floor,
        tolerance=check.tolerance,
        source=check.source,
        margin=check.margin,
        ok=bool(check.ok),
        conclusive=check.ok is not None,
        size=check.size,
        reason=str(check.reason or ""),
        text=check.text,
    )


def evidence(run: Run) -> list[Evidence]:
    """The ranks that did not end well, first to fail first; the log's tail of a node with its first such rank.

    Ranks that were only still running when we ended the run are evidence of a stall, one a node; where the run was
    ended for another reason they are none. Of thousands of failed ranks the first `MOST_RANKS` are kept.
    """
    failed = sorted((each for each in run.exits if each.code not in {0, None}), key=lambda each: each.at)
    running: dict[str, RankExit] = {}
    for each in run.exits if run.state in {RunState.STALLED, RunState.TIMED_OUT} else ():
        if each.code is None:
            running.setdefault(each.node, each)
    bad = [*failed, *running.values()][:MOST_RANKS]
    tails = dict(run.tails)
    return [
        Evidence(
            rank=each.rank,
            node=each.node,
            exit_code=each.code,
            reason=each.reason,
            tail=each.tail or tails.pop(each.node, ""),
            at=each.at,
        )
        for each in bad
    ]
