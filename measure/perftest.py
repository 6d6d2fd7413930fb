"""perftest (`ib_write_bw`, `ib_send_lat`, …): client and server often print into one stream, and then rows come twice.

The unit stands in the header (`MB/sec` or `Gb/sec`), so it stands in the keys too. A table is complete when its last
row is followed by a line of dashes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from measure import columns
from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.model import ToolTable

_TITLE = re.compile(
    r"^\s*(RDMA_Write|RDMA_Read|Send|Atomic\w*|Raw Ethernet \w+)(?: Post List)?"
    r"(?: (Bidirectional))? (BW|Latency) Test\s*$"
)
_HEADER = re.compile(r"^\s*#bytes\s+#iterations\s")
_ROW = re.compile(r"^\s*\d+\s+\d+(?:\s+[\d.]+)+\s*$")
_CUT_ROW = re.compile(r"^\s*\d+\s+\d+\s")
_DASHES = re.compile(r"^\s*-{20,}\s*$")
_PAIR = re.compile(r"([A-Z][\w*-]*(?: [\w.*-]+)*)\s*:\s+(\S[^\t:]*?)(?=\s*$|\s{2,}|\t)")
_OPERATION: Final = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send"}
_FACTS: Final = {"Device": "device", "Link type": "link_type", "Number of qps": "qps", "Mtu": "mtu",
                 "Connection type": "connection", "Transport type": "transport_type"}  # fmt: skip


@dataclass(slots=True)
class _Open:
    tool: str
    keys: list[str] = field(default_factory=list)
    unit: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False
    torn: bool = False


class PerftestTables:
    """Reader of perftest."""

    marks = (" Test", "#bytes")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._tables: list[_Open] = []

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if " Test" in body and (match := _TITLE.match(body)):
            return self._begin(match)
        if _HEADER.match(body):
            return self._header(body)
        return self._inside(self._tables[-1], line) if self._tables else PASS

    def _inside(self, table: _Open, line: Line) -> int:
        body = line.body
        if _DASHES.match(body):
            table.closed = bool(table.rows)
            self._draft.closed = table.closed
            return FACT
        if table.keys and _CUT_ROW.match(body):
            return self._row(line)
        if " : " in body or "\t : " in body:
            return self._facts(body)
        return PASS

    def _begin(self, match: re.Match[str]) -> int:
        operation = _OPERATION.get(match.group(1), match.group(1).lower().replace(" ", "_"))
        tool = f"ib_{operation}_{'bw' if match.group(3) == 'BW' else 'lat'}"
        # Client and server of one run print into one stream: the second title of an open table begins no other one.
        if not self._tables or self._tables[-1].closed or self._tables[-1].tool != tool:
            self._draft.bare_rows = True
            self._tables.append(_Open(tool))
        self._draft.generation += 1
        if match.group(2):
            self._draft.details["bidirectional"] = True
        return FACT

    def _header(self, body: str) -> int:
        if not self._tables:
            self._tables.append(_Open("perftest"))
        table = self._tables[-1]
        titles = columns.bracketed(body)
        self._draft.bare_rows = True
        table.keys = [columns.name(title) for title in titles]
        table.unit = next((unit for title in titles if (unit := columns.unit(title))), None)
        self._draft.generation += 1
        return FACT

    def _row(self, line: Line) -> int:
        table = self._tables[-1]
        row = columns.values(table.keys, line.body.split()) if _ROW.match(line.body) else None
        if row is None or not line.whole:
            table.torn = True
        else:
            table.rows.append(row)
            table.closed = self._draft.closed = False
        return FACT

    def _facts(self, body: str) -> int:
        found = PASS
        for key, value in _PAIR.findall(body):
            name = _FACTS.get(key.strip())
            if name:
                found = FACT
                self._draft.details.setdefault(name, int(value) if value.isdigit() else value)
        return found

    def finish(self) -> None:
        """Write the tables into the draft."""
        draft = self._draft
        if not any(table.keys or table.tool != "perftest" for table in self._tables):
            return
        draft.formats.append("perftest")
        draft.tool = self._tables[0].tool
        for table in self._tables:
            whole = table.closed and not table.torn and bool(table.rows)
            if not whole:
                draft.cut(f"{table.tool}: the table has no end, no rows, or a torn row")
            draft.tool_tables.append(ToolTable(table.tool, tuple(table.rows), whole, table.unit))
