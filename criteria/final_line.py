"""What the final line of our own program must say before a run counts as proven: by every rank, of every cycle.

The table above it holds means over cycles and no ranks, so a table alone would hide one bad cycle; and a log of other
nodes says nothing of these. Applies where the conditions say that the program ends with such a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog import format_size
from criteria.metrics import finite
from criteria.model import Check, Conditions, Reason
from criteria.training import said
from measure import Measurement

_NAMED = 8
"""How many of a kind a sentence names."""


def proven(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    """A check for each thing that the line leaves open; none where it proves the run."""
    if not conditions.final_line:
        return
    if not measurement.result_line:
        yield _open("complete", "the program's final line is missing: no rank and no cycle is known")
        return
    if len(measurement.tables) > 1:
        yield _open("complete", f"{len(measurement.tables)} tables in the log of one run: not of this run alone")
    other = {table.collective for table in measurement.tables} - {None, conditions.collective}
    if other:
        yield _open("collective", f"asked for {conditions.collective}, the table is of {_listed(other)}")
    yield from _nodes(measurement, conditions)
    yield from _cycles(measurement, conditions)


def _nodes(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    by_node = said(measurement, "per_node")
    people = measurement.per_rank or (by_node if isinstance(by_node, list | tuple) else ())
    there = {str(entry.get("node")) for entry in people if isinstance(entry, Mapping)}
    asked = set(conditions.node_names)
    if not there:
        yield _open("ranks", "the final line says nothing of any rank")
    elif asked and there != asked:
        yield _open("nodes", f"asked for {_listed(asked - there or asked)}, the log is of {_listed(there - asked)}")
    elif measurement.nodes not in {None, conditions.nodes}:
        yield _open("nodes", f"asked for {conditions.nodes} nodes, the final line lists {measurement.nodes}")
    if not all(_count(entry.get("wrong")) for entry in people if isinstance(entry, Mapping)):
        yield _open("wrong", "the final line does not say of every rank how many of its result elements were wrong")
    if measurement.per_rank:
        return
    ranks = [entry.get("ranks") for entry in people if isinstance(entry, Mapping)]
    if there and (set(ranks) != {conditions.gpus_per_node} or len(ranks) != conditions.nodes):
        yield _open("ranks", f"the final line does not have {conditions.gpus_per_node} ranks of every node once")


def _cycles(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    if conditions.cycles and len(measurement.cycles) != conditions.cycles:
        yield _open("cycles", f"{len(measurement.cycles)} of {conditions.cycles} cycles are in the log")
    sizes = {row.size for table in measurement.tables for row in table.rows}
    for number, cycle in enumerate(measurement.cycles):
        rows = cycle.get("rows")
        good = {
            size for row in (rows if isinstance(rows, list | tuple) else ()) if (size := _measured(row)) is not None
        }
        if good != sizes:
            at = _listed(format_size(size) for size in sorted(sizes - good or good - sizes))
            yield _open("cycles", f"cycle {number + 1} is not wholly measured and checked: {at}")
            return


def _measured(row: Any) -> int | None:
    """The size of a cycle's row that has a bandwidth and counts of wrong elements; None for any other."""
    if not isinstance(row, Mapping) or not isinstance(row.get("size"), int):
        return None
    cells = [row, *([row["in_place"]] if row.get("in_place") is not None else [])]
    whole = all(
        isinstance(cell, Mapping)
        and (busbw := finite(cell.get("busbw"))) is not None
        and busbw >= 0
        and _count(cell.get("wrong"))
        for cell in cells
    )
    return int(row["size"]) if whole else None


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _open(metric: str, text: str) -> Check:
    return Check(metric, ok=False, text=text, source="always on", reason=Reason.NO_MEASUREMENT)


def _listed(names: Any) -> str:
    found: Sequence[str] = sorted(names) if isinstance(names, set) else list(names)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return (", ".join(found[:_NAMED]) or "no others") + more
