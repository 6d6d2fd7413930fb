"""What hangs on a case besides its words: the measured table as CSV, charts, log tails, node conditions.

Charts are drawn for failing cases only: there somebody looks for a cause, and a session of thousands of passes must
not spend minutes on pictures. `python -m reports` draws the session's own charts for the rest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from reports import words
from reports.record import CaseRecord, Cell, MeasurementRecord


@dataclass(frozen=True, slots=True)
class Attached:
    """A file's content with its name for people, MIME type and extension."""

    name: str
    body: bytes
    type: str
    extension: str


def of(case: CaseRecord) -> Iterator[Attached]:
    """All attachments of a case, most telling first."""
    if case.failing:
        from reports import charts  # noqa: PLC0415 - matplotlib is heavy, and most cases pass

        for title, picture in charts.of_case(case):
            yield Attached(title, picture, "image/png", "png")
    if case.isolation is not None and case.isolation.story:
        yield _text("isolation, step by step", "\n".join(case.isolation.story))
    if case.measurement is not None and case.measurement.tables:
        yield Attached("measurement", table_csv(case.measurement).encode(), "text/csv", "csv")
    if case.criteria:
        yield _text("criteria", "\n".join(words.criterion_line(check) for check in case.criteria))
    if case.advice:
        yield _text("likely causes", "\n".join(words.advice_lines(case.advice)))
    if case.evidence:
        yield _text("log tails", "\n".join(line for each in case.evidence for line in words.evidence_lines(each)))
    if case.events:
        yield _text("node conditions", "\n".join(f"{each.node}: {each.kind}: {each.message}" for each in case.events))


COLUMNS = ("time_us", "algbw", "busbw", "wrong")
HEADINGS = ("time us", "algbw GB/s", "busbw GB/s", "wrong")


def table_csv(measurement: MeasurementRecord) -> str:
    """Every size of every table, one line a row; units are in the headings."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    halves = [f"{half} {heading}" for half in ("out-of-place", "in-place") for heading in HEADINGS]
    lines.writerow(["table", "size B", "count", "type", "redop", "root", *halves])
    for number, table in enumerate(measurement.tables):
        for row in table.rows:
            cells = [*_cells(row.out_of_place), *_cells(row.in_place)]
            lines.writerow([number, row.size, row.count, row.type, row.redop, row.root, *cells])
    return out.getvalue()


def _cells(cell: Cell | None) -> list[float | int | None]:
    return [None if cell is None else getattr(cell, name) for name in COLUMNS]


def _text(name: str, body: str) -> Attached:
    return Attached(name, body.encode(), "text/plain", "txt")
