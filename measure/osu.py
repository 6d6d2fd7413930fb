"""OSU micro-benchmarks: bandwidth or latency by message size, with the columns of the header.

They print no end mark. A table counts as complete when its last size is the tool's default maximum (4 MiB between two
ranks, 1 MiB for collectives) or the one given with `-m`; a shorter one may have been cut and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from measure import columns
from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.model import ToolTable

_TITLE = re.compile(r"^# OSU (\S.*?)\s+Test(?: v(\S+))?\s*$", re.IGNORECASE)
_COMMAND = re.compile(r"\b(osu_[a-z_]+)\b(.*)$")
_BUFFERS = re.compile(r"Send Buffer on \w+ \((\w)\) and Receive Buffer on \w+ \((\w)\)")
_OPTION_BUFFERS = re.compile(r"\s([DHM]) ([DHM])\b")
_LARGEST = re.compile(r"(?:-m|--message-size)[ =]?(?:\d*:)?(\d+)")
_HEADER = re.compile(r"^#\s+(?:Size\s{2,}\S|Avg Latency)")
_ROW = re.compile(r"^\s*\d[\d.]*(?:\s+\S+)*\s*$")
_PAIR: Final = 1 << 22
_MANY: Final = 1 << 20
_NAMES: Final = (
    ("bi-directional bandwidth", "osu_bibw"), ("multiple bandwidth", "osu_mbw_mr"), ("multi latency", "osu_multi_lat"),
    ("multi-threaded latency", "osu_latency_mt"), ("all-to-all", "osu_alltoall"), ("alltoall", "osu_alltoall"),
    ("allreduce", "osu_allreduce"), ("allgather", "osu_allgather"), ("reduce_scatter", "osu_reduce_scatter"),
    ("reduce-scatter", "osu_reduce_scatter"), ("broadcast", "osu_bcast"), ("bcast", "osu_bcast"),
    ("barrier", "osu_barrier"), ("gather", "osu_gather"), ("scatter", "osu_scatter"), ("reduce", "osu_reduce"),
    ("mpi_put bandwidth", "osu_put_bw"), ("mpi_get bandwidth", "osu_get_bw"), ("mpi_put latency", "osu_put_latency"),
    ("mpi_get latency", "osu_get_latency"), ("bandwidth", "osu_bw"), ("latency", "osu_latency"),
)  # fmt: skip
_COLLECTIVES: Final = {
    "osu_allreduce": "all_reduce", "osu_allgather": "all_gather", "osu_alltoall": "alltoall", "osu_bcast": "broadcast",
    "osu_reduce": "reduce", "osu_reduce_scatter": "reduce_scatter", "osu_gather": "gather", "osu_scatter": "scatter",
}  # fmt: skip
_TWO_RANKS: Final = frozenset(
    {"osu_bw", "osu_bibw", "osu_latency", "osu_latency_mt", "osu_mbw_mr", "osu_multi_lat", "osu_put_bw", "osu_get_bw"}
)


@dataclass(slots=True)
class _Open:
    tool: str
    version: str | None
    keys: list[str] = field(default_factory=list)
    unit: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    largest: int | None = None
    torn: bool = False


class OsuTables:
    """Reader of OSU micro-benchmarks."""

    marks = ("# ", "osu_")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._tables: list[_Open] = []
        self._command: str | None = None
        self._largest: int | None = None

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if body.startswith("#"):
            return self._comment(body)
        if "osu_" in body and (match := _COMMAND.search(body)):
            self._command = match.group(1)
            largest = _LARGEST.search(match.group(2))
            self._largest = int(largest.group(1)) if largest else None
            if buffers := _OPTION_BUFFERS.search(match.group(2)):
                self._draft.details["buffers"] = " ".join(buffers.groups())
            return FACT
        if self._tables and self._tables[-1].keys and _ROW.match(body):
            return self._row(line)
        return PASS

    def _comment(self, body: str) -> int:
        if match := _TITLE.match(body):
            self._draft.bare_rows = True
            self._tables.append(_Open(self._tool(match.group(1)), match.group(2), largest=self._largest))
            self._command = self._largest = None
            self._draft.generation += 1
            return FACT
        if match := _BUFFERS.search(body):
            self._draft.details["buffers"] = " ".join(match.groups())
            return FACT
        if self._tables and _HEADER.match(body):
            titles = columns.split(body)
            table = self._tables[-1]
            table.keys = [columns.name(title) for title in titles]
            table.unit = next((unit for title in titles if (unit := columns.unit(title))), None)
            self._draft.generation += 1
            return FACT
        return PASS

    def _tool(self, title: str) -> str:
        if self._command:
            return self._command
        words = title.lower()
        tool = next((tool for mark, tool in _NAMES if mark in words), "osu")
        return tool.replace("osu_", "osu_xccl_") if words.startswith(("nccl", "rccl", "xccl")) else tool

    def _row(self, line: Line) -> int:
        table = self._tables[-1]
        row = columns.values(table.keys, line.body.split())
        # A last number without line end may have lost digits.
        if row is None or (not line.whole and table.keys[-1] != "validation"):
            table.torn = True
        else:
            table.rows.append(row)
        return FACT

    def finish(self) -> None:
        """Write the tables into the draft."""
        draft = self._draft
        if not self._tables:
            return
        draft.formats.append("osu")
        draft.tool = self._tables[0].tool
        draft.collective = draft.collective or _COLLECTIVES.get(draft.tool)
        for table in self._tables:
            if table.version:
                draft.versions[table.tool] = table.version
            last = table.rows[-1].get("size") if table.rows else None
            wanted = table.largest or (_PAIR if table.tool in _TWO_RANKS else _MANY)
            whole = bool(table.rows) and not table.torn and (last is None or last >= wanted)
            if not whole:
                draft.cut(f"{table.tool}: the table ends at {last} bytes, before {wanted}, or in the middle of a row")
            draft.tool_tables.append(ToolTable(table.tool, tuple(table.rows), whole, table.unit))
