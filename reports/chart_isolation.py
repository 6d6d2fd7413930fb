"""The search for a cause as it went: every probe on the nodes that it used, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from reports import canvas, words
from reports.record import CaseRecord, IsolationRecord, ProbeRecord
from reports.spending import first_end
from reports.text import number

MOST_ROWS = 40


def isolation_in_time(case: CaseRecord) -> bytes | None:
    """PNG, or None where no probe has times. Of a large group only the nodes of the smallest failing probes show."""
    found = case.isolation
    if found is None:
        return None
    timed = [probe for probe in found.probes if probe.started is not None and probe.ended is not None]
    return _draw(case, found, timed) if timed else None


@canvas.styled
def _draw(case: CaseRecord, found: IsolationRecord, timed: Sequence[ProbeRecord]) -> bytes:
    nodes, hidden = _rows(case, found)
    note = f"{words.isolation_title(case.id, found)}; figures in GB/s"
    if hidden:
        note += f"; {hidden} more nodes are not drawn"
    figure, plot = canvas.axes(words.conclusion(found), note, height=min(11.0, 1.9 + 0.25 * len(nodes)))
    position = {name: index for index, name in enumerate(nodes)}
    took = max(probe.ended or 0.0 for probe in timed) - min(case.started or 0.0, timed[0].started or 0.0)
    if case.started is not None:
        first = (case.started, first_end(case))
        _bar(plot, position, case.nodes, first, outcome="failed", value=case.value, took=took)
    for probe in timed:
        when = (probe.started or 0.0, probe.ended or 0.0)
        _bar(plot, position, probe.nodes, when, outcome=probe.outcome, value=probe.value, took=took)
    _name_rows(plot, nodes, _accused(found))
    plot.set_xlabel("seconds since the start of the session")
    plot.grid(axis="x", color=canvas.RULE, lw=0.6)
    outcomes = {probe.outcome for probe in timed} | {"failed"}
    canvas.legend(plot, [name for name in canvas.FILLS if name in outcomes])
    return canvas.png(figure)


def _bar(
    plot: Axes,
    position: Mapping[str, int],
    nodes: Sequence[str],
    when: tuple[float, float],
    *,
    outcome: str,
    value: float | None,
    took: float,
) -> None:
    rows = sorted(position[name] for name in nodes if name in position)
    start, end = when
    for row in rows:
        plot.barh(row, max(end - start, took / 400), left=start, height=0.68, lw=0.6, zorder=2, **canvas.FILLS[outcome])
    # The figure stands once, in the topmost bar, where the bar is wide enough to hold it.
    if rows and value is not None and end - start > took * 0.05:
        ink = "white" if outcome == "failed" else canvas.INK
        plot.text(
            (start + end) / 2, rows[0], number(value), ha="center", va="center", fontsize=7.5, color=ink, zorder=3
        )


def _name_rows(plot: Axes, nodes: Sequence[str], accused: set[str]) -> None:
    plot.set_ylim(len(nodes) - 0.4, -0.6)
    plot.set_yticks(range(len(nodes)), nodes, fontsize=9 if len(nodes) <= 24 else 7)
    plot.tick_params(axis="y", length=0)
    for label in plot.get_yticklabels():
        if label.get_text() in accused:
            label.set_fontweight("bold")
            label.set_color(canvas.BAD)


def _accused(found: IsolationRecord) -> set[str]:
    groups = [*found.sets, *(link.between for link in found.links)]
    return {suspect.node for suspect in found.suspects} | {name for group in groups for name in group}


def _rows(case: CaseRecord, found: IsolationRecord) -> tuple[list[str], int]:
    """Nodes to draw in the case's order, and how many are left out."""
    names = list(dict.fromkeys([*case.nodes, *(name for probe in found.probes for name in probe.nodes)]))
    failed = sorted((probe for probe in found.probes if probe.outcome == "failed"), key=lambda probe: len(probe.nodes))
    ranked = list(
        dict.fromkeys([*sorted(_accused(found)), *(name for probe in failed for name in probe.nodes), *names])
    )
    kept = set(ranked[:MOST_ROWS])
    return [name for name in names if name in kept], len(names) - len(kept)
