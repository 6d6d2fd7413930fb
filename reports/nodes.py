"""From cases to nodes: what the session as a whole says about each machine.

A case speaks about a group; a repair needs a node. The ledger takes one finished case at a time and keeps, per node,
the gravest finding with its reasons and the extremes of every metric, so that the writer can bring the node list up to
date after each case without going through all earlier ones. A group that failed without being searched accuses nobody:
its nodes stay inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cluster import Node
from criteria import METRICS
from reports.alone import Alone
from reports.record import CaseRecord, NodeRecord, NodeVerdict, Span, SuspectRecord
from reports.text import one_line
from reports.words import suspect_line

GRAVITY: tuple[NodeVerdict, ...] = (
    "untested",
    "passed",
    "cleared",
    "inconclusive",
    "intermittent",
    "lost",
    "suspect",
)
"""Least to gravest: of what several cases say about a node the gravest stands."""

UNPROVEN_REASONS = frozenset({"NoMeasurement", "Lost"})
"""Reasons for which even a case of a single node accuses nobody: nothing was measured."""

SHOWN = "busBandwidthGBps"
"""Kept for every node, judged or not."""
NO_FIGURES = frozenset({"wrong"})
"""Checked always, and nothing that a node is better or worse at."""

_RANK = {verdict: rank for rank, verdict in enumerate(GRAVITY)}


@dataclass
class _State:
    verdict: NodeVerdict = "untested"
    reasons: list[str] = field(default_factory=list)
    spans: dict[str, Span] = field(default_factory=dict)
    devices: dict[str, Any] = field(default_factory=dict)
    """What each device of the node is called for good, as the node itself said."""


class NodeLedger:
    """Node records of a session, brought up to date case by case."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._states = {name: _State() for name in self._nodes}
        self._records: dict[str, NodeRecord] = {}
        self._alone: dict[str, Alone] = {}
        self._by_itself: dict[str, list[tuple[NodeVerdict, str]]] = {}
        """Node → what the single-node cases say of it, seen together."""

    def add(self, case: CaseRecord) -> None:
        """Take in one finished case."""
        for name, devices in case.identities.items():
            if (state := self._states.get(name)) is not None and devices != state.devices:
                state.devices.update(devices)
                self._records.pop(name, None)
        for name, verdict, reason in findings(case):
            by_itself = len(case.nodes) == 1 and not any(event.kind == "health" for event in case.events)
            if by_itself and verdict in {"passed", "suspect"}:
                group = self._alone.setdefault(f"{case.entry} {case.scale}", Alone())
                group.add(name, case, reason if verdict == "suspect" else "")
            if not by_itself or verdict != "suspect":
                self._find(name, verdict, reason)
        for name, key, value, unit in figures(case):
            self._measure(name, key, value, unit)

    def records(self) -> list[NodeRecord]:
        """One record a node, in the order of the inventory; unchanged nodes keep the same object."""
        by_itself: dict[str, list[tuple[NodeVerdict, str]]] = {}
        for group in self._alone.values():
            for name, verdict, reason in group.verdicts():
                by_itself.setdefault(name, []).append((verdict, reason))
        for name in self._nodes:
            if name not in self._records or by_itself.get(name) != self._by_itself.get(name):
                state = _with(self._states[name], by_itself.get(name, ()))
                self._records[name] = _record(self._nodes[name], state)
        self._by_itself = by_itself
        return [self._records[name] for name in self._nodes]

    def _find(self, name: str, verdict: NodeVerdict, reason: str) -> None:
        if (state := self._states.get(name)) is None:
            return
        gravest = max(state.verdict, verdict, key=_RANK.__getitem__)
        if gravest != state.verdict or (reason and reason not in state.reasons):
            self._records.pop(name, None)
        state.verdict = gravest
        if reason and reason not in state.reasons:
            state.reasons.append(reason)

    def _measure(self, name: str, key: str, value: float, unit: str) -> None:
        if (state := self._states.get(name)) is None:
            return
        self._records.pop(name, None)
        old = state.spans.get(key)
        if old is None:
            state.spans[key] = Span(best=value, worst=value, unit=unit)
            return
        low, high = min(value, old.best, old.worst), max(value, old.best, old.worst)
        known = METRICS.get(key.rpartition("/")[2])
        best, worst = (low, high) if known is not None and known.better == "lower" else (high, low)
        state.spans[key] = Span(best=best, worst=worst, unit=unit, runs=old.runs + 1)


def node_records(nodes: Iterable[Node], cases: Iterable[CaseRecord]) -> list[NodeRecord]:
    """The node records of a whole session."""
    ledger = NodeLedger(nodes)
    for case in cases:
        ledger.add(case)
    return ledger.records()


def findings(case: CaseRecord) -> Iterator[tuple[str, NodeVerdict, str]]:
    """(node, verdict, reason) of each node that a case says something about."""
    if case.isolation is not None:
        yield from _isolated(case)
    elif case.verdict == "passed":
        yield from ((name, "passed", "") for name in case.nodes)
    elif case.verdict in {"failed", "inconclusive"}:
        yield from _unsearched(case)


def figures(case: CaseRecord) -> Iterator[tuple[str, str, float, str]]:
    """(node, metric, value, unit) of every whole run of a case that the node took part in, as `entry/metric`.

    Probes of one node or of one rail measure something else (NVLink, a single NIC): they are left out.
    """
    if case.measurement is not None and case.measurement.complete:
        judged = {check.metric for check in case.criteria} | {SHOWN}
        for metric, figure in case.measurement.metrics.items():
            for name in case.nodes if metric in judged - NO_FIGURES else ():
                yield name, f"{case.entry}/{metric}", figure.value, figure.unit
    for probe in case.isolation.probes if case.isolation is not None else ():
        alike = len(probe.nodes) > 1 and not probe.variant
        if probe.value is not None and probe.outcome in {"passed", "failed"} and alike:
            for name in probe.nodes:
                yield name, f"{case.entry}/{SHOWN}", probe.value, probe.unit


def _isolated(case: CaseRecord) -> Iterator[tuple[str, NodeVerdict, str]]:
    found = case.isolation
    assert found is not None
    lines: Mapping[str, SuspectRecord] = {suspect.node: suspect for suspect in found.suspects}
    named = set()
    for verdict, names in found.nodes.items():
        for name in names:
            named.add(name)
            reason = f"{case.id}: {suspect_line(lines[name])}" if name in lines else ""
            if not reason and verdict in {"inconclusive", "lost"}:
                reason = f"{case.id}: {found.headline or found.verdict}"
            yield name, verdict, reason
    for name, suspect in lines.items():
        if name not in named:
            verdict = "intermittent" if suspect.kind == "intermittent" else "suspect"
            named.add(name)
            yield name, verdict, f"{case.id}: {suspect_line(suspect)}"
    for name in case.nodes:
        if name not in named:
            yield name, "inconclusive", f"{case.id}: {found.headline or found.verdict}"


def _unsearched(case: CaseRecord) -> Iterator[tuple[str, NodeVerdict, str]]:
    accused: dict[str, str] = {event.node: event.message for event in case.events if event.kind == "health"}
    lost = {event.node: event.message for event in case.events if event.kind == "lost"}
    alone = len(case.nodes) == 1 and case.verdict == "failed" and case.reason not in UNPROVEN_REASONS
    for name in case.nodes:
        if name in accused:
            yield name, "suspect", f"{case.id}: HardwareFailureDetected, {accused[name]}"
        elif name in lost:
            yield name, "lost", f"{case.id}: {lost[name]}"
        elif alone:
            yield name, "suspect", f"{case.id}: {case.reason}, {one_line(case.message, 300)}"
        else:
            yield name, "inconclusive", f"{case.id}: {case.reason or case.verdict} in a group of {len(case.nodes)}"


def _with(state: _State, more: Iterable[tuple[NodeVerdict, str]]) -> _State:
    """The state with findings that hold as things stand now, and may not after the next case."""
    verdict, reasons = state.verdict, list(state.reasons)
    for found, reason in more:
        verdict = max(verdict, found, key=_RANK.__getitem__)
        reasons += [reason] if reason not in reasons else []
    return replace(state, verdict=verdict, reasons=reasons)


def _record(node: Node, state: _State) -> NodeRecord:
    return NodeRecord(
        name=node.name,
        verdict=state.verdict,
        reasons=list(state.reasons),
        topology=dict(node.topology),
        nvlink_domain=node.nvlink_domain,
        product=node.product,
        accelerators=node.accelerators,
        metrics=dict(state.spans),
        identity={**node.identity, **({"devices": state.devices} if state.devices else {})},
    )
