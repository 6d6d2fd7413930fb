"""Bus bandwidth against message size, with the expectation and the floor of the case."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reports import canvas, words
from reports.record import CaseRecord, Row
from reports.text import number, plural, size

Points = Sequence[tuple[int, float]]
MOST_TICKS = 12


def bandwidth(case: CaseRecord) -> bytes | None:
    """PNG, or None where there are not two sizes. Of several tables in a log the last is drawn strong."""
    tables = case.measurement.tables if case.measurement is not None else []
    curves = [points for table in tables if len(points := _points(table.rows)) > 1]
    return _draw(case, curves) if curves else None


@canvas.styled
def _draw(case: CaseRecord, curves: Sequence[Points]) -> bytes:
    band = [each for each in case.measurement.spread if each.busbw is not None] if case.measurement is not None else []
    note = f"{case.id}, {plural(len(case.nodes), 'node')}"
    if band:
        note += f"; shaded: {band[-1].repeats} repeats, of which the worst counts"
    figure, plot = canvas.axes(_title(case), note)
    sizes = sorted({count for points in curves for count, _ in points})
    for points in curves[:-1]:
        plot.plot(*zip(*points, strict=True), color=canvas.RULE, lw=1.2, zorder=2)
    plot.plot(*zip(*curves[-1], strict=True), color=canvas.BLUE, lw=2.2, marker="o", ms=4, zorder=3)
    plot.fill_between(
        [each.size for each in band],
        [each.busbw.min for each in band if each.busbw is not None],
        [each.busbw.max for each in band if each.busbw is not None],
        color=canvas.GOOD,
        alpha=0.6,
        lw=0,
        zorder=2,
    )
    end = curves[-1][-1]
    canvas.label(plot, number(end[1]), end, (7, 0), va="center", fontweight="bold", color=canvas.BLUE)
    levels = _levels(plot, case, sizes[0])
    plot.set_xscale("log", base=2)
    plot.set_ylim(0, max([value for points in curves for _, value in points] + levels) * 1.12)
    plot.set_xlim(sizes[0] / (sizes[-1] / sizes[0]) ** 0.03, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.08)
    ticks = sizes[:: max(1, -(-len(sizes) // MOST_TICKS))]
    plot.set_xticks(ticks, [size(count) for count in ticks])
    plot.minorticks_off()
    plot.set_xlabel("message size (bytes)")
    plot.set_ylabel("bus bandwidth (GB/s)")
    plot.grid(axis="y", color=canvas.RULE, lw=0.6)
    return canvas.png(figure)


def _levels(plot: Axes, case: CaseRecord, left: int) -> list[float]:
    """Draw what the deciding figure was held against; only where that figure is a bandwidth."""
    if case.unit != "GB/s":
        return []
    floor = words.floor(case)
    if floor is not None:
        plot.axhspan(0, floor, color=canvas.NOTHING, zorder=0)
    drawn = []
    for level, name, dashes in ((case.expected, "expected", (6, 3)), (floor, "floor", (1.5, 2))):
        if level is not None:
            plot.axhline(level, color=canvas.INK, lw=1.1, dashes=dashes, zorder=1)
            canvas.label(plot, f"{name} {number(level)}", (left, level), (0, 4), color=canvas.SOFT)
            drawn.append(level)
    return drawn


def _points(rows: Sequence[Row]) -> Points:
    cells = [(row.size, row.out_of_place or row.in_place) for row in rows]
    return [(count, cell.busbw) for count, cell in cells if cell is not None and cell.busbw is not None and count > 0]


def _title(case: CaseRecord) -> str:
    what = (case.measurement.collective if case.measurement is not None else "") or case.entry
    value, unit = words.deciding(case)
    if value is None:
        return f"{what}: bus bandwidth over message size"
    if not case.expected:
        return f"{what} reaches {number(value, unit)}"
    return f"{what} reaches {number(value, unit)}, {value / case.expected:.0%} of the expected {number(case.expected)}"
