"""Single nodes among their peers: a bar each (a dot where they are many), the median and the peers' band."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes

from reports import canvas, words
from reports.record import CaseRecord
from reports.text import fold, number

MOST_BARS = 40
MOST_NAMED = 6
BAND = 0.05
"""Half-width of the band: the smallest relevant effect of fabric bandwidth (judgement.md)."""

Measured = Sequence[tuple[str, float]]


def nodes_among_peers(title: str, cases: Sequence[CaseRecord]) -> bytes | None:
    """PNG for cases of one node each, in the order given; None for fewer than three."""
    single = [(case, *words.deciding(case)) for case in cases if len(case.nodes) == 1]
    measured = [(case.nodes[0], value) for case, value, _ in single if value is not None]
    if len(measured) < 3:
        return None
    unit = next(unit for _, value, unit in single if value is not None)
    # CPU processes share one machine's cores: that one of them is slower than another says nothing about it.
    judged = all(case.backend != "gloo" for case, _, _ in single)
    low = median(value for _, value in measured) * (1 - BAND) if judged else 0.0
    poor = {case.nodes[0] for case, value, _ in single if case.failing or (value is not None and value < low)}
    return _draw(title, unit, measured, poor)


@canvas.styled
def _draw(title: str, unit: str, measured: Measured, poor: set[str]) -> bytes:
    values = [value for _, value in measured]
    middle = median(values)
    named = [name for name, _ in measured if name in poor]
    finding = f"{fold(named, 3)} out of line" if named else f"{len(values)} nodes, {words.extremes(values)} {unit}"
    note = f"median {number(middle, unit)}, shaded ±{BAND:.0%} of it"
    figure, plot = canvas.axes(f"{title}: {finding}", note)
    plot.axhspan(middle * (1 - BAND), middle * (1 + BAND), color=canvas.NOTHING, zorder=0)
    plot.axhline(middle, color=canvas.INK, lw=1.0, dashes=(6, 3), zorder=1)
    (_dots if len(measured) > MOST_BARS else _bars)(plot, measured, poor)
    plot.set_ylabel(f"bus bandwidth ({unit})")
    plot.grid(axis="y", color=canvas.RULE, lw=0.6)
    return canvas.png(figure)


def _bars(plot: Axes, measured: Measured, poor: set[str]) -> None:
    names = [name for name, _ in measured]
    for index, (name, value) in enumerate(measured):
        plot.bar(index, value, width=0.72, zorder=2, lw=0.8, **canvas.FILLS["failed" if name in poor else "passed"])
        if name in poor or len(measured) <= 10:
            weight = "bold" if name in poor else "normal"
            canvas.label(plot, number(value), (index, value), (0, 5), ha="center", fontweight=weight)
    steep = len(names) * max(map(len, names)) > 100
    plot.set_xticks(range(len(names)), names, rotation=45 if steep else 0, ha="right" if steep else "center")
    plot.tick_params(axis="x", length=0)
    plot.set_ylim(0, max(value for _, value in measured) * 1.15)


def _dots(plot: Axes, measured: Measured, poor: set[str]) -> None:
    for index, (name, value) in enumerate(measured):
        fill = canvas.FILLS["failed" if name in poor else "passed"]
        plot.plot(
            index, value, "o", ms=6 if name in poor else 3.5, mfc=fill["facecolor"], mec=fill["edgecolor"], mew=0.6
        )
        if name in poor and len(poor) <= MOST_NAMED:
            side = "left" if index < len(measured) * 0.1 else "right" if index > len(measured) * 0.9 else "center"
            canvas.label(plot, f"{name}  {number(value)}", (index, value), (0, 6), ha=side, fontweight="bold")
    values = [value for _, value in measured]
    spread = max(max(values) - min(values), max(values) * 0.12)
    plot.set_ylim(max(0.0, min(values) - spread * 0.15), max(values) + spread * 0.2)
    plot.set_xlabel(f"{len(measured)} nodes in topology order")
