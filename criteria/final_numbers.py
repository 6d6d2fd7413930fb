"""The numbers of our final line: every cycle whole and checked, and the table above it nothing but their mean.

The rules are those of workloads/collectives.py: bus bandwidth = size / time x a factor of the collective (nccl-tests,
doc/PERFORMANCE.md); the table shows the mean time of all cycles, the bandwidths of that mean time, and the sum of wrong
elements, each rounded to what fits its column (`figure` there). Only rounding may make a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog import format_size
from criteria.metrics import finite
from criteria.model import Conditions
from measure import Cell, Measurement, Table

Problem = tuple[str, str]
"""(metric, sentence)."""
FACTORS: Mapping[str, Any] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "alltoall": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda _: 1.0,
    "sendrecv": lambda _: 1.0,
}
"""busbw / algbw of n ranks."""
RELATIVE = 2e-3
"""Time is written to 0.001 us: of the shortest collectives (1 us) that is a thousandth."""
SMALLEST = 2e-6
"""GB/s are written to six decimals: the slowest small messages round to 0."""
WIDTHS = {"time_us": 7, "algbw": 6, "busbw": 6}
"""Characters of a column of the table: a longer number is printed with one decimal of its power of ten."""
COARSE = 0.06
"""What that costs at most."""
PRINTED = 0.006
"""Two decimals are printed of small numbers."""
PLACES = ("out_of_place", "in_place")


def numbers(measurement: Measurement, line: Mapping[str, Any], conditions: Conditions) -> Iterator[Problem]:
    """What is missing in the cycles, or differs between them and the table; nothing where all is well."""
    sizes = line.get("sizes")
    if not isinstance(sizes, list) or not sizes or not all(is_count(size) and size > 0 for size in sizes):
        yield "sizes", "the final line does not list its sizes"
        return
    asked = line.get("requested_sizes")
    if isinstance(asked, list) and len(asked) != len(sizes):
        yield "sizes", f"the final line has {len(sizes)} sizes for {len(asked)} that were asked for"
    cycles = measurement.cycles
    if not cycles or len(cycles) != (conditions.cycles or len(cycles)):
        yield "cycles", f"{len(cycles)} of {conditions.cycles or 'all'} cycles are in the final line"
    if [cycle.get("cycle") for cycle in cycles] != list(range(len(cycles))):
        yield "cycles", "the final line does not have every cycle once"
    problem = next((found for cycle in cycles if (found := _cycle(cycle, sizes, conditions))), "")
    if problem:
        yield "cycles", problem
    elif cycles:
        yield from _tables(measurement.tables, cycles, sizes, conditions)


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 on; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _cycle(cycle: Mapping[str, Any], sizes: Sequence[int], conditions: Conditions) -> str:
    """The first thing that is wrong with a cycle, or the empty string."""
    rows, name = cycle.get("rows"), f"cycle {cycle.get('cycle')} of the final line"
    found = [row.get("size") if isinstance(row, Mapping) else None for row in rows] if isinstance(rows, list) else []
    if found != list(sizes):
        absent = [size for size in sizes if size not in found]
        return f"{name} does not have every size once" + (f": {format_size(absent[0])} is missing" if absent else "")
    for row in rows or ():
        inside = row.get("in_place")
        for cell, place in ((row, ""), *(((inside, " in place"),) if inside is not None else ())):
            problem = _cell(cell, row["size"], conditions)
            if problem:
                return f"{name}: {problem} at {format_size(row['size'])}{place}"
    return ""


def _cell(cell: Any, size: int, conditions: Conditions) -> str:
    """What is wrong with one measurement of one size."""
    if not isinstance(cell, Mapping):
        return "no measurement"
    time_us, algbw, busbw = (finite(cell.get(name)) for name in WIDTHS)
    if time_us is None or algbw is None or busbw is None or min(time_us, algbw, busbw) < 0:
        return "the bus bandwidth or time is not a number"
    if not is_count(cell.get("wrong")):
        return "the wrong result elements were not counted"
    factor = FACTORS.get(conditions.collective or "")
    if factor is None or conditions.ranks < 2:
        return ""  # one rank moves nothing: its bus bandwidth is 0 by definition
    expected = finite(size / 1e3 / time_us) if time_us > 0 else None
    if expected is None or not _near(algbw, expected) or not _near(busbw, expected * factor(conditions.ranks)):
        return f"bandwidth and time do not belong together ({busbw:g} GB/s, {time_us:g} us)"
    return ""


def _near(value: float, expected: float) -> bool:
    return abs(value - expected) <= SMALLEST + RELATIVE * expected


def _tables(
    tables: Sequence[Table], cycles: Sequence[Mapping[str, Any]], sizes: Sequence[int], conditions: Conditions
) -> Iterator[Problem]:
    """The one table of the log against the mean of all cycles."""
    if not any(table.rows for table in tables):
        yield "sizes", f"no row of a {conditions.collective} table in the log"
        return
    if len(tables) != 1:
        yield "complete", f"{len(tables)} tables are in the log: it is not of one run alone"
        return
    table = tables[0]
    if table.collective not in {None, conditions.collective}:
        yield "collective", f"asked for {conditions.collective}, the table is of {table.collective}"
    if [row.size for row in table.rows] != list(sizes):
        yield "sizes", "the table does not have the sizes of the final line, each once"
        return
    if any(row.count is None for row in table.rows):
        return  # no table was printed: this one is made of the cycles
    types = {row.type for row in table.rows} - {conditions.dtype or table.rows[0].type}
    if types:
        yield "result", f"the table is of another run: type {', '.join(map(str, types))}; asked {conditions.dtype}"
    for number, row in enumerate(table.rows):
        for place in PLACES:
            entries = [cycle["rows"][number] for cycle in cycles]
            entries = entries if place == "out_of_place" else [entry.get("in_place") for entry in entries]
            problem = _differs(getattr(row, place), entries)
            if problem:
                words = place.replace("_", " ")
                yield "cycles", f"table and final line disagree at {format_size(row.size)} {words}: {problem}"
                return


def _differs(cell: Cell | None, entries: Sequence[Mapping[str, Any] | None]) -> str:
    """The first column in which a cell of the table is not the mean of these, or the empty string."""
    known = [entry for entry in entries if entry is not None]
    shown = cell is not None and cell.time_us is not None
    if not known and not shown:
        return ""
    if len(known) != len(entries) or cell is None or not shown:
        return "one of them has no measurement"
    for column, width in WIDTHS.items():
        value = finite(getattr(cell, column))
        expected = _mean([float(entry[column]) for entry in known], harmonic=column != "time_us")
        coarse = COARSE if expected >= 9.9 * 10 ** (width - 1) else RELATIVE
        if value is None or abs(value - expected) > PRINTED + coarse * expected:
            return f"{column} {value} in the table, {expected:.6g} as the mean of {len(known)} cycles"
    wrong = sum(entry["wrong"] for entry in known)
    return "" if cell.wrong == wrong else f"{cell.wrong} wrong elements in the table, {wrong} in the cycles"


def _mean(values: Sequence[float], *, harmonic: bool) -> float:
    """Of times the arithmetic mean; of bandwidths that of the mean time, which is the harmonic one."""
    if not harmonic:
        return sum(values) / len(values)
    return len(values) / sum(1 / value for value in values) if all(value > 0 for value in values) else 0.0
