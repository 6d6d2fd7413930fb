"""Cases by entry and scale as a table that fits: a thousand cases of one entry are one line.

Where the terminal is narrow, columns go before names or figures are cut: a table that says `nccl-all-re… fai…` says
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from reports import words
from reports.record import CaseRecord
from reports.text import STYLES, duration, size

MOST_ROWS = 14
COLUMNS = ("case", "result", "nodes", "busbw", "expected", "floor", "at size", "time")
LEFT = frozenset({"case", "result"})
DISPENSABLE = ("at size", "time", "floor", "expected", "nodes")
"""What a narrow terminal does without, first to go first."""
GAP = "  "
NOTHING = "–"


def case_table(cases: Sequence[CaseRecord], width: int) -> Iterator[Text]:
    """The lines of the table, each at most `width` wide."""
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in cases:
        groups.setdefault((case.entry, case.scale), []).append(case)
    shown = list(groups.items())
    if len(shown) > MOST_ROWS:
        # Failures first where not all rows fit: nobody reads a screen of green to find the red line below it.
        shown = sorted(shown, key=lambda each: not any(case.failing for case in each[1]))[:MOST_ROWS]
    rows = [_row(f"{entry} {scale}".strip(), group) for (entry, scale), group in shown]
    columns = _fitting(rows, width)
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    yield _line({name: Text(name, "dim") for name in columns}, widths)
    for row in rows:
        yield _line({name: row[name] for name in columns}, widths)
    if len(groups) > MOST_ROWS:
        yield Text(f"  … {len(groups) - MOST_ROWS} more in report.json")


def _fitting(rows: Sequence[dict[str, Text]], width: int) -> list[str]:
    columns = [name for name in COLUMNS if any(row[name].plain != NOTHING for row in rows)]
    for name in (*DISPENSABLE, ""):
        needed = sum(max(len(each), *(len(row[each]) for row in rows)) + len(GAP) for each in columns)
        if needed <= width or not name:
            break
        if name in columns:
            columns.remove(name)
    return columns


def _line(cells: dict[str, Text], widths: dict[str, int]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, cell in cells.items():
        space = " " * (widths[name] - len(cell))
        line.append(GAP).append(*(("", "") if name in LEFT else (space, ""))).append_text(cell)
        line.append(space if name in LEFT else "")
    return line


def _row(name: str, cases: Sequence[CaseRecord]) -> dict[str, Text]:
    figures = [(value, unit) for value, unit in map(words.deciding, cases) if value is not None]
    sizes = [_largest(case) for case in cases]
    starts = [case.started for case in cases if case.started is not None]
    ends = [case.ended for case in cases if case.ended is not None]
    cells = {
        "nodes": words.extremes([float(len(case.nodes)) for case in cases if case.nodes]),
        "busbw": f"{words.extremes([value for value, _ in figures])} {figures[0][1] if figures else ''}".strip(),
        "expected": words.extremes([case.expected for case in cases if case.expected is not None]),
        "floor": words.extremes([floor for case in cases if (floor := words.floor(case)) is not None]),
        "at size": size(max(sizes)) if any(sizes) else NOTHING,
        "time": duration(max(ends) - min(starts)) if starts and ends else NOTHING,
    }
    return {"case": Text(name), "result": _result(cases), **{column: Text(cell) for column, cell in cells.items()}}


def _result(cases: Sequence[CaseRecord]) -> Text:
    counts = Counter(case.verdict for case in cases)
    result = Text()
    for verdict, count in sorted(counts.items(), key=lambda each: each[0] == "passed"):
        result.append(", " if result else "")
        result.append(f"{count} {verdict}" if len(cases) > 1 else verdict, STYLES[verdict])
    return result


def _largest(case: CaseRecord) -> int:
    tables = case.measurement.tables if case.measurement is not None else []
    return max((row.size for table in tables for row in table.rows), default=0)
