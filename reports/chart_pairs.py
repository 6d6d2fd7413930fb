"""Node × node: bandwidth between pairs as a matrix, where a bad node is a cross and a bad link a single cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports import canvas, words
from reports.record import CaseRecord, IsolationRecord
from reports.text import plural

MOST_LABELS = 40
FEWEST = 6
"""Fewer pairs make no picture: the list says it better."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two nodes that ran together, and how well."""

    first: str
    second: str
    value: float
    failed: bool


def pairs_of_cases(cases: Sequence[CaseRecord]) -> list[Pair]:
    """The cases of two nodes."""
    two = [(case, words.deciding(case)[0]) for case in cases if len(case.nodes) == 2]
    return [Pair(case.nodes[0], case.nodes[1], value, case.failing) for case, value in two if value is not None]


def pairs_of_probes(found: IsolationRecord) -> list[Pair]:
    """The probes of two nodes that ran as the case does."""
    return [
        Pair(probe.nodes[0], probe.nodes[1], probe.value, probe.outcome == "failed")
        for probe in found.probes
        if len(probe.nodes) == 2 and not probe.variant and probe.value is not None
    ]


def matrix(title: str, pairs: Sequence[Pair]) -> bytes | None:
    """PNG, or None for fewer than `FEWEST` pairs. Failing pairs carry a cross: it shows in grey too."""
    return _draw(title, pairs) if len(pairs) >= FEWEST else None


@canvas.styled
def _draw(title: str, pairs: Sequence[Pair]) -> bytes:
    names = sorted({name for pair in pairs for name in (pair.first, pair.second)}, key=lambda name: (len(name), name))
    position = {name: index for index, name in enumerate(names)}
    grid = [[float("nan")] * len(names) for _ in names]
    for pair in pairs:
        row, column = position[pair.first], position[pair.second]
        grid[row][column] = grid[column][row] = pair.value
    bad = [pair for pair in pairs if pair.failed]
    finding = f"{len(bad)} of {len(pairs)} pairs fail" if bad else f"all {plural(len(pairs), 'pair')} pass"
    note = "bus bandwidth between two nodes; × = failed; white = not run"
    figure, plot = canvas.axes(f"{title}: {finding}", note, height=min(8.0, 2.6 + 0.3 * len(names)))
    image = plot.imshow(grid, cmap="cividis", vmin=0)
    for pair in bad:
        spots = (position[pair.first], position[pair.second]), (position[pair.second], position[pair.first])
        for x, y in spots:
            plot.plot(x, y, "x", color="white", ms=max(3.0, 11 - len(names) / 6), mew=2)
    shown = range(0, len(names), -(-len(names) // MOST_LABELS))
    plot.set_xticks(shown, [names[index] for index in shown], rotation=90)
    plot.set_yticks(shown, [names[index] for index in shown])
    plot.tick_params(length=0)
    plot.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=plot, label="bus bandwidth (GB/s)", shrink=0.85)
    bar.outline.set_visible(False)
    return canvas.png(figure)
