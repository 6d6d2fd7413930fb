"""The lines our own programs end with: `CLUSTERPROOF-RESULT {…}` on rank 0, `CLUSTERPROOF-ERROR {…}` on any rank.

The table above the result line is read like any other; this line adds what each rank saw, and proves that the program
came to its end. A torn line proves nothing, one that another text only quotes is none, and two of them are not of one
run. An error counts wherever in a line it stands.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from measure.draft import FACT, PASS, Draft
from measure.lenient_json import as_list
from measure.lines import Line
from measure.model import Cell, LogError, Row, Table
from measure.numbers import number, whole_number

RESULT: Final = "CLUSTERPROOF-RESULT "
ERROR: Final = "CLUSTERPROOF-ERROR "
_MARK: Final = re.compile(rf"({RESULT}|{ERROR})\s*")


class OwnLines:
    """Reader of our own final lines."""

    marks = ("CLUSTERPROOF-",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._result: dict[str, Any] | None = None
        self._results = 0

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if "CLUSTERPROOF-" not in body:
            return PASS
        # What another rank writes may stand behind the line before its line end; in front of it, it is only quoted.
        ours, at, found = body.startswith(RESULT), 0, PASS
        while match := _MARK.search(body, at):
            at = match.end()
            if match[1] == RESULT and not ours:
                continue
            found = FACT
            document, at = _object(body, at)
            if document is None:
                self._draft.cut(f"the line {match[1].strip()} is torn")
            elif match[1] == RESULT:
                self._take_result(document)
            else:
                self._take_error(document)
        return found

    def _take_result(self, document: dict[str, Any]) -> None:
        self._result = document
        self._results += 1

    def _take_error(self, document: dict[str, Any]) -> None:
        host = document.get("node") or document.get("host")
        what = str(document.get("what", "the program gave no reason"))
        peer = document.get("peer")
        rank = whole_number(str(document.get("rank")))
        self._draft.error(LogError(rank, str(host) if host else None, what, str(peer) if peer else None))
        self._draft.cut("a rank of the program reported an error")
        if not self._draft.formats:
            self._draft.formats.append("clusterproof")

    def finish(self) -> None:
        """Write the result line into the draft; it knows ranks and nodes better than any table."""
        document, draft = self._result, self._draft
        if document is None:
            return
        draft.result_line = True
        draft.closed = True
        draft.formats.insert(0, "clusterproof")
        draft.collective = _text(document.get("collective")) or draft.collective
        draft.ranks = _integer(document.get("world_size")) or draft.ranks
        nodes = document.get("nodes")
        if isinstance(nodes, list):
            names = list(dict.fromkeys(map(str, nodes)))
            draft.nodes = len(names)
            draft.hosts.update(dict.fromkeys(names))
        draft.per_rank.extend(self._entries(document, "per_rank"))
        draft.cycles.extend(self._entries(document, "cycles"))
        for key, into in (("versions", draft.versions), ("transport", draft.transport)):
            value = document.get(key)
            if isinstance(value, dict):
                into.update(value)
        known = {"per_rank", "cycles", "versions", "transport"}
        draft.details["result"] = {key: value for key, value in document.items() if key not in known}
        if document.get("complete") is not True:
            draft.cut("the program says that its run is not complete")
        if self._results > 1:
            draft.details["result_lines"] = self._results
            draft.cut(f"{self._results} result lines are in the log: it is not of one run alone")
        self._against_table(document)

    def _entries(self, document: dict[str, Any], key: str) -> list[dict[str, Any]]:
        """The objects of a list; whatever else stands in their place shows that the line is not what was written."""
        found = document.get(key)
        entries = [entry for entry in as_list(found) if isinstance(entry, dict)]
        if found is not None and (not isinstance(found, list) or len(entries) != len(found)):
            self._draft.cut(f"{key} of the result line is not a list of objects")
        return entries

    def _against_table(self, document: dict[str, Any]) -> None:
        """The table must hold every size of the result; where no table was printed the cycles make one."""
        sizes = [size for size in map(_integer, as_list(document.get("sizes"))) if size is not None]
        draft = self._draft
        if draft.tables and sizes:
            shown = {row.size for table in draft.tables for row in table.rows}
            missing = len([size for size in sizes if size not in shown])
            if missing:
                draft.cut(f"{missing} of the {len(sizes)} sizes of the result line are not in the table")
        elif not draft.tables and draft.cycles:
            draft.tables.append(_from_cycles(draft.cycles, draft.collective))


def _from_cycles(cycles: list[dict[str, Any]], collective: str | None) -> Table:
    """A table of means over the cycles, one row a size."""
    by_size: dict[int, list[dict[str, Any]]] = {}
    for cycle in cycles:
        for entry in as_list(cycle.get("rows")):
            if isinstance(entry, dict) and (size := _integer(entry.get("size"))) is not None:
                by_size.setdefault(size, []).append(entry)
    rows = tuple(
        Row(
            size=size,
            out_of_place=Cell(
                _mean(entries, "time_us"), _rate(entries, "algbw"), _rate(entries, "busbw"), _total(entries, "wrong")
            ),
        )
        for size, entries in by_size.items()
    )
    return Table(rows=rows, complete=bool(rows), collective=collective)


def _values(entries: list[dict[str, Any]], key: str) -> list[float]:
    return [value for entry in entries if (value := number(str(entry.get(key)))) is not None]


def _mean(entries: list[dict[str, Any]], key: str) -> float | None:
    values = _values(entries, key)
    return sum(values) / len(values) if values else None


def _rate(entries: list[dict[str, Any]], key: str) -> float | None:
    """The bandwidth of the mean time, which is the harmonic mean of the bandwidths."""
    values = _values(entries, key)
    return len(values) / sum(1 / value for value in values) if values and min(values) > 0 else _mean(entries, key)


def _total(entries: list[dict[str, Any]], key: str) -> int | None:
    values = _values(entries, key)
    return int(sum(values)) if values else None


def _object(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The JSON object that begins there and where it ends; None where it is torn."""
    try:
        document, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at
    return document if isinstance(document, dict) else None, end


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
