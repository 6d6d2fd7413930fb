"""The findings in sentences, the same words in every format: terminal, failure text, certificate, charts.

Each function takes a part of the record and gives plain lines; how they look is the format's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.record import Advice, CaseRecord, Criterion, Evidence, IsolationRecord, ProbeRecord, SuspectRecord
from reports.text import duration, fold, number, one_line, plural

TAIL_LINES = 20


def figure(value: float | None, expected: float | None, unit: str) -> str:
    """`186 of 389 GB/s`; without an expectation `186 GB/s`; nothing where nothing was measured."""
    if value is None:
        return ""
    return f"{number(value)} of {number(expected)} {unit}".rstrip() if expected is not None else number(value, unit)


def deciding(case: CaseRecord) -> tuple[float | None, str]:
    """The figure a case is shown with and its unit: the deciding one, else the bus bandwidth of a whole run."""
    if case.value is not None:
        return case.value, case.unit
    whole = case.measurement is not None and case.measurement.complete
    if case.measurement is not None and whole and (found := case.measurement.metrics.get("busBandwidthGBps")):
        return found.value, found.unit
    return None, ""


def floor(case: CaseRecord) -> float | None:
    """The bound that the deciding figure of a case was held against."""
    matching = (check.floor for check in case.criteria if check.floor is not None and check.value == case.value)
    return next(matching, None)


def extremes(values: Sequence[float]) -> str:
    """`372–391`, one figure where all are alike, `–` where there is none."""
    if not values:
        return "–"
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low}–{high}"


def part(layer: str, rail: int | None) -> str:
    """The part of a node: `fabric, rail 3`, `scale-up (NVLink)`."""
    name = {"scale-up": "scale-up (NVLink)", "node": "the node itself"}.get(layer, layer)
    return name if rail is None else f"{name}, rail {rail}"


def suspect_line(suspect: SuspectRecord) -> str:
    """Why a suspect is one, in a line: reason, figure, part and the first piece of evidence."""
    parts = [
        suspect.reason,
        "intermittent" if suspect.kind == "intermittent" else "",
        figure(suspect.value, suspect.expected, suspect.unit),
        part(suspect.layer, suspect.rail),
        f"could not be told apart from {', '.join(suspect.alternatives)}" if suspect.alternatives else "",
        *suspect.evidence[:1],
    ]
    return one_line("; ".join(text for text in parts if text))


def other_findings(found: IsolationRecord) -> Iterator[tuple[str, str]]:
    """(what, in words) of everything that isolation found besides single nodes."""
    for group in found.sets:
        yield "one of", f"{fold(group, 10)}: no probe could tell them apart"
    for link in found.links:
        yield "link", one_line("; ".join(["–".join(link.between), *_with(link.level, link.evidence)]))
    for domain in found.domains:
        yield domain.level or "domain", one_line("; ".join([domain.name, *domain.evidence[:1]]))
    if found.scale is not None:
        yield "size", scale_line(found)
    if found.systemic:
        yield "systemic", one_line(found.systemic)
    if found.transient:
        yield "not reproduced", one_line(found.transient)
    if found.limit:
        yield "not settled", one_line(found.limit)


def scale_line(found: IsolationRecord) -> str:
    """The size at which a group begins to fail."""
    assert found.scale is not None
    parts = []
    if found.scale.smallest_failing is not None:
        parts.append(f"fails from {plural(found.scale.smallest_failing, 'node')} on")
    if found.scale.largest_passing is not None:
        parts.append(f"passes up to {plural(found.scale.largest_passing, 'node')}")
    return one_line("; ".join([", ".join(parts), *([found.scale.note] if found.scale.note else [])]))


def certified_line(found: IsolationRecord) -> str:
    """`the other 62 nodes passed together, 391 of 389 GB/s`; empty where nothing was certified.

    Beside a link or a domain no "other": one end of a link may well have taken part.
    """
    rest = found.certified_rest
    if rest is None:
        return ""
    only_nodes = found.suspects and not (found.links or found.domains or found.sets)
    what = f", {figure(rest.value, rest.expected, rest.unit)}" if rest.value is not None else ""
    return f"{'the other ' if only_nodes else ''}{plural(len(rest.nodes), 'node')} passed together{what}"


def conclusion(found: IsolationRecord) -> str:
    """What an isolation ended with, in one line."""
    return one_line("; ".join(text for text in (found.headline or found.verdict, certified_line(found)) if text))


def probe_line(probe: ProbeRecord) -> str:
    """A probe in a line: on what, with which outcome, what it told."""
    # Where there is a figure it says all; else the reason, or what the planner made of it.
    said = figure(probe.value, probe.expected, probe.unit) or probe.reason or probe.told
    if probe.value is not None and probe.reason not in {"", "ThresholdViolation"}:
        said += f", {probe.reason}"
    return one_line("; ".join(text for text in [fold(probe.nodes, 3), probe.variant, said] if text))


def criterion_line(check: Criterion) -> str:
    """A check in a line, with where its expectation came from."""
    if check.text:
        return one_line(check.text)
    parts = [check.metric, number(check.value, check.unit)]
    if check.expected is not None:
        parts.append(f"expected {check.expected if isinstance(check.expected, str) else number(check.expected)}")
    if check.source:
        parts.append(f"({check.source})")
    return one_line(" ".join(parts))


def advice_lines(advice: Sequence[Advice]) -> Iterator[str]:
    """Likely causes in order, each with what to run and what its output would show."""
    for place, each in enumerate(advice, start=1):
        yield one_line(f"{place}. {each.cause}")
        yield f"   next: {one_line(each.command)}"
        if each.sign:
            yield f"   then: {one_line(each.sign)}"


def counter_lines(counters: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What each node said of itself: damage first, then the rest."""
    for node, said in counters.items():
        parts = [
            f"{each.get('device')} {each.get('counter')} +{each.get('delta')} ({each.get('kind')})"
            for each in said.get("moved", ())
        ]
        parts += [f"{gpu} throttled: {', '.join(map(str, why))}" for gpu, why in said.get("throttled", {}).items()]
        parts += said.get("differs", ())
        yield one_line(f"{node}: {'; '.join(map(str, parts))}", 300)


def evidence_lines(evidence: Evidence) -> Iterator[str]:
    """How a rank ended and the last that it said."""
    code = "still running" if evidence.exit_code is None else f"exit {evidence.exit_code}"
    when = f" after {duration(evidence.at)}" if evidence.at else ""
    yield f"rank {evidence.rank} on {evidence.node}: {code}{when}" + (
        f" ({evidence.reason})" if evidence.reason else ""
    )
    for line in evidence.tail.strip("\n").splitlines()[-TAIL_LINES:]:
        yield f"  | {line}"


def isolation_title(case_id: str, found: IsolationRecord) -> str:
    """`isolation of X: 6 probes in 4 rounds, 3 min 20 s`."""
    took = span(found.probes)
    cost = f"{plural(len(found.probes), 'probe')} in {plural(found.rounds, 'round')}"
    return f"isolation of {case_id}: {cost}" + (f", {duration(took)}" if took else "")


def span(probes: Sequence[ProbeRecord]) -> float:
    """Seconds from the start of the first probe to the end of the last."""
    starts = [probe.started for probe in probes if probe.started is not None]
    ends = [probe.ended for probe in probes if probe.ended is not None]
    return max(ends) - min(starts) if starts and ends else 0.0


def _with(level: str, evidence: list[str]) -> list[str]:
    return [*([f"between {level}s"] if level else []), *evidence[:1]]
