"""The scaling ladder: bandwidth against the number of nodes, from the case and the probes that ran as it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from reports import canvas, words
from reports.record import CaseRecord
from reports.text import number

FEWEST_SIZES = 4
"""Numbers of nodes below which a ladder says nothing."""
NEAREST_TICKS = 0.1
"""Doublings between two named sizes."""
MARKS = {"passed": "o", "failed": "X", "unclear": "s"}


@dataclass(frozen=True, slots=True)
class Rung:
    """One run: on how many nodes, how fast, what was expected, how it was judged."""

    nodes: int
    value: float
    expected: float | None
    outcome: str


def scaling_ladder(case: CaseRecord) -> bytes | None:
    """PNG, or None where a suspect explains the failure or the runs have fewer than `FEWEST_SIZES` sizes."""
    if case.isolation is None or case.isolation.suspects:
        return None
    rungs = _rungs(case)
    return _draw(case, rungs) if len({rung.nodes for rung in rungs}) >= FEWEST_SIZES else None


@canvas.styled
def _draw(case: CaseRecord, rungs: Sequence[Rung]) -> bytes:
    note = f"{case.id}: the case and its probes of two nodes and more; line: expected for the size"
    figure, plot = canvas.axes(_title(case), note)
    expected = sorted({(rung.nodes, rung.expected) for rung in rungs if rung.expected is not None})
    if expected:
        plot.plot(*zip(*expected, strict=True), color=canvas.INK, lw=1.1, dashes=(6, 3), zorder=1)
    for outcome, mark in MARKS.items():
        same = [rung for rung in rungs if rung.outcome == outcome]
        fill = canvas.FILLS[outcome]
        plot.scatter(
            [rung.nodes for rung in same],
            [rung.value for rung in same],
            s=46,
            marker=mark,
            color=fill["facecolor"],
            edgecolors=fill["edgecolor"],
            linewidths=0.8,
            label=outcome,
            zorder=3,
        )
    sizes = _ticks(case, {rung.nodes for rung in rungs})
    plot.set_xscale("log", base=2)
    plot.set_xticks(sizes, [str(count) for count in sizes])
    plot.minorticks_off()
    plot.set_ylim(0, max([rung.value for rung in rungs] + [level for _, level in expected]) * 1.12)
    plot.set_xlabel("nodes")
    plot.set_ylabel("bus bandwidth (GB/s)")
    plot.grid(axis="y", color=canvas.RULE, lw=0.6)
    outcomes = {rung.outcome for rung in rungs}
    handles, names = plot.get_legend_handles_labels()
    shown = [(handle, name) for handle, name in zip(handles, names, strict=True) if name in outcomes]
    plot.legend(*zip(*shown, strict=True), loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False)
    return canvas.png(figure)


def _ticks(case: CaseRecord, sizes: set[int]) -> list[int]:
    """Sizes to name along the axis: the smallest that fails first of all, then what does not run into it."""
    scale = case.isolation.scale if case.isolation is not None else None
    first = [scale.smallest_failing] if scale is not None and scale.smallest_failing in sizes else []
    kept: list[int] = []
    for count in [*first, max(sizes), *sorted(sizes)]:
        if count is not None and all(abs(log2(count / other)) > NEAREST_TICKS for other in kept):
            kept.append(count)
    return sorted(kept)


def _rungs(case: CaseRecord) -> list[Rung]:
    value, unit = words.deciding(case)
    if case.isolation is None or unit not in {"GB/s", ""}:
        return []
    own = [Rung(len(case.nodes), value, case.expected, "failed")] if value is not None else []
    return own + [
        Rung(len(probe.nodes), probe.value, probe.expected, probe.outcome)
        for probe in case.isolation.probes
        if probe.value is not None and probe.outcome in MARKS and not probe.variant and len(probe.nodes) > 1
    ]


def _title(case: CaseRecord) -> str:
    found = case.isolation
    if found is not None and found.scale is not None:
        return f"{case.entry} {words.scale_line(found)}"
    value, unit = words.deciding(case)
    return f"{case.entry}: {number(value, unit)} on {len(case.nodes)} nodes, and what smaller groups reach"
