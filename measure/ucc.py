"""`ucc_perftest`: times in microseconds and bus bandwidths in GB/s by count and size.

Its bandwidth `min` is the larger one: the three belong to the average, least and greatest time. The tool prints no end
mark, so that its table is never known to be complete.
"""

from __future__ import annotations

import re
from typing import Any, Final

from measure import columns
from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.model import ToolTable

_COLLECTIVE = re.compile(r"^Collective:\s+(\w+)\s*$")
_FACT = re.compile(r"^(Memory type|Datatype|Reduction|Inplace):\s+(\S+)\s*$")
_HEADER = re.compile(r"^\s*Count\s+Size\s+Time, us(?:\s+(?:Bus )?Bandwidth, GB/s)?\s*$")
_ROW = re.compile(r"^\s*\d+\s+\d+\s")
_TIMES: Final = ["count", "size", "t_avg_us", "t_min_us", "t_max_us"]
_BANDWIDTHS: Final = ["bw_avg_GBps", "bw_min_GBps", "bw_max_GBps"]
_COLLECTIVES: Final = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reduce_scatter": "reduce_scatter", "bcast": "broadcast",
}  # fmt: skip


class UccTables:
    """Reader of ucc_perftest."""

    marks = ("Collective:", "Time, us")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._collective: str | None = None
        self._keys: list[str] = []
        self._rows: list[dict[str, Any]] = []
        self._torn = False

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if body.startswith("Collective:") and (match := _COLLECTIVE.match(body)):
            self._collective = match.group(1).lower()
            return FACT
        if "Time, us" in body and _HEADER.match(body):
            self._draft.bare_rows = True
            self._keys = _TIMES + (_BANDWIDTHS if "Bandwidth" in body else [])
            self._draft.generation += 1
            return FACT
        if self._keys and _ROW.match(body):
            row = columns.values(self._keys, body.split())
            if row is None or not line.whole:
                self._torn = True
            else:
                self._rows.append(row)
            return FACT
        if self._collective and (match := _FACT.match(body)):
            self._draft.details[match.group(1).lower().replace(" ", "_")] = match.group(2)
            return FACT
        return PASS

    def finish(self) -> None:
        """Write the table into the draft."""
        if not self._keys:
            return
        draft = self._draft
        draft.formats.append("ucc_perftest")
        draft.tool = "ucc_perftest"
        if self._collective:
            draft.collective = _COLLECTIVES.get(self._collective, self._collective)
        if self._torn or not self._rows:
            draft.cut("ucc_perftest: the table has no rows or ends in the middle of one")
        draft.cut("ucc_perftest prints no end mark: whether rows are missing cannot be known")
        draft.tool_tables.append(ToolTable("ucc_perftest", tuple(self._rows), complete=False))
