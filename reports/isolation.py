"""From the planner's findings and the runs of its probes to the isolation part of the record.

The planner knows neither clock nor cluster; the runs do. Two things are added here: when and where each probe ran, and
the nodes that named themselves. A node whose own condition turned bad in the middle of a run needs no probe to be a
suspect, so the planner only hears that it is gone; the record says what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol, get_args

from cluster import Run
from criteria import Verdict
from isolate import Findings, Suspect, Variant
from isolate import ProbeRecord as PlannerProbe
from reports.record import (
    CertifiedRest,
    DomainRecord,
    IsolationRecord,
    LinkRecord,
    NodeVerdict,
    ProbeRecord,
    ScaleRecord,
    SuspectRecord,
)

HARDWARE = "HardwareFailureDetected"


class Ran(Protocol):
    """The run of a probe, as the one who drove it kept it."""

    @property
    def run(self) -> Run:
        """What it left behind."""

    @property
    def verdict(self) -> Verdict:
        """The word of the case's own judge on it."""

    @property
    def lane(self) -> int:
        """The lane it ran in."""


def isolation_record(
    findings: Findings,
    *,
    runs: Mapping[int, Ran] | None = None,
    unhealthy: Mapping[str, str] | None = None,
    unit: str = "GB/s",
    origin: float = 0.0,
) -> IsolationRecord:
    """The record of one isolation.

    `runs` are the runs by probe id, `unhealthy` the nodes whose condition turned bad with the condition's words, `unit`
    that of the probes' values, `origin` the session's start on the clock of the runs.
    """
    ran = runs or {}
    sick = unhealthy or {}
    named = _with_sick(findings, sick)
    probes = [_probe(probe, ran.get(probe.probe.id), unit, origin) for probe in findings.probes]
    rest = findings.certified_rest
    return IsolationRecord(
        verdict=findings.verdict,
        headline=named.headline(),
        rounds=findings.rounds,
        probes=probes,
        suspects=[_suspect(suspect, probes, unit, sick) for suspect in named.suspects],
        links=[
            LinkRecord(
                between=sorted(link.between), level=link.level, confidence=link.confidence, evidence=list(link.evidence)
            )
            for link in findings.links
        ],
        domains=[
            DomainRecord(name=each.name, level=each.level, confidence=each.confidence, evidence=list(each.evidence))
            for each in findings.domains
        ],
        sets=[sorted(group, key=natural_key) for group in findings.sets],
        scale=None
        if findings.scale is None
        else ScaleRecord(
            smallest_failing=findings.scale.smallest_failing,
            largest_passing=findings.scale.largest_passing,
            note=findings.scale.note,
        ),
        systemic=findings.systemic or False,
        transient=findings.transient or False,
        certified_rest=None
        if rest is None
        else CertifiedRest(nodes=list(rest.nodes), value=rest.value, expected=_expected(rest.nodes, probes), unit=unit),
        nodes=_standings(findings, sick),
        limit=findings.limit or False,
        story=list(findings.story),
    )


def natural_key(name: str) -> tuple[int, str]:
    """Order in which people write numbered names."""
    return len(name), name


def _with_sick(findings: Findings, sick: Mapping[str, str]) -> Findings:
    """The findings with the nodes that named themselves among the suspects, not among the lost."""
    known = {suspect.node for suspect in findings.suspects}
    more = [
        Suspect(node=node, layer="node", confidence="confirmed", evidence=(words,))
        for node, words in sick.items()
        if node not in known
    ]
    suspects = sorted((*findings.suspects, *more), key=lambda suspect: natural_key(suspect.node))
    return replace(findings, suspects=tuple(suspects), lost=tuple(node for node in findings.lost if node not in sick))


def _suspect(suspect: Suspect, probes: Iterable[ProbeRecord], unit: str, sick: Mapping[str, str]) -> SuspectRecord:
    failed = [probe for probe in probes if probe.outcome == "failed" and suspect.node in probe.nodes]
    measured = [probe for probe in failed if probe.value is not None and not probe.variant]
    # The smallest group says most about the node; of those the worst value.
    shown = min(measured, key=lambda probe: (len(probe.nodes), probe.value), default=None)
    reasons = [probe.reason for probe in sorted(failed, key=lambda probe: len(probe.nodes)) if probe.reason]
    healthy = suspect.node not in sick
    return SuspectRecord(
        node=suspect.node,
        layer=suspect.layer,
        rail=suspect.rail,
        confidence=suspect.confidence,
        evidence=list(dict.fromkeys([*([] if healthy else [sick[suspect.node]]), *suspect.evidence])),
        kind=suspect.kind,
        alternatives=list(suspect.alternatives),
        reason=(reasons[0] if reasons else "") if healthy else HARDWARE,
        value=shown.value if shown is not None and healthy else None,
        expected=shown.expected if shown is not None and healthy else None,
        unit=unit if shown is not None and healthy else "",
    )


def _probe(probe: PlannerProbe, ran: Ran | None, unit: str, origin: float) -> ProbeRecord:
    asked, told = probe.probe, probe.result
    return ProbeRecord(
        id=asked.id,
        nodes=list(asked.nodes),
        outcome=told.outcome,
        value=told.value,
        expected=told.expected,
        floor=None if ran is None else _floor(ran.verdict),
        unit=unit if told.value is not None else "",
        started=None if ran is None else ran.run.started - origin,
        ended=None if ran is None else ran.run.ended - origin,
        alone=probe.alone,
        round=asked.round,
        purpose=asked.purpose,
        variant=variant_words(asked.variant),
        reason=told.reason,
        told=probe.told,
        lane=None if ran is None else ran.lane,
    )


def _floor(verdict: Verdict) -> float | None:
    """The bound of the check that decided."""
    bounds = (check.floor for check in verdict.checks if check.floor is not None and check.value == verdict.value)
    return next(bounds, None)


def variant_words(variant: Variant) -> str:
    """How a probe differed from the case: `rail 3, multi-node NVLink off, all-pairs`."""
    parts = []
    if variant.rail is not None:
        parts.append(f"rail {variant.rail}")
    if variant.mnnvl is not None:
        parts.append(f"multi-node NVLink {'on' if variant.mnnvl else 'off'}")
    if variant.traffic is not None:
        parts.append(variant.traffic)
    return ", ".join(parts)


def _expected(nodes: tuple[str, ...], probes: Iterable[ProbeRecord]) -> float | None:
    group = set(nodes)
    return next((probe.expected for probe in probes if probe.outcome == "passed" and set(probe.nodes) == group), None)


def _standings(findings: Findings, sick: Mapping[str, str]) -> dict[NodeVerdict, list[str]]:
    """Result → nodes, gravest first in no particular need; only results that some node has."""
    sorted_out: dict[NodeVerdict, list[str]] = {standing: [] for standing in get_args(NodeVerdict)}
    for node, result in findings.nodes.items():
        sorted_out["suspect" if node in sick else result.standing].append(node)
    sorted_out["suspect"] += [node for node in sick if node not in findings.nodes]
    return {standing: nodes for standing, nodes in sorted_out.items() if nodes}
