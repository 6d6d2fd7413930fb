"""Tables of tools that look like those we read and mean something else: named, and never taken for ours.

While such a table runs, rows without a header of their own are nobody's.
"""

from __future__ import annotations

import re
from typing import Final

from measure.draft import FACT, PASS, Draft
from measure.lines import Line

_TOOLS: Final = (
    ("nccom-test", "size(B)", re.compile(r"size\(B\)\s+count\(elems\)\s+type\s+time")),
    ("hccl-test", "alg_bandwidth", re.compile(r"data_size\s*\(Bytes\):?.*alg_bandwidth\s*\(GB/s\)", re.IGNORECASE)),
    ("oneccl-benchmark", "#repetitions", re.compile(r"#bytes\s+#repetitions\s+.*t_avg\[usec\].*stddev")),
    ("imb", "#repetitions", re.compile(r"#bytes\s+#repetitions\s+t")),
    ("nvbandwidth", "memcpy", re.compile(r"memcpy \w+ CPU\(row\) .. GPU\(column\) bandwidth")),
    ("p2pBandwidthLatencyTest", "P2P", re.compile(r"P2P\S* .*Bandwidth.*Matrix \(GB/s\)")),
    ("iperf3", "Interval", re.compile(r"\[ ID\] Interval\s+Transfer\s+Bitrate")),
)
"""Tool, a mark that is cheap to look for, and its header."""


class ForeignTables:
    """Reader that names other tools' tables."""

    marks = tuple(mark for _, mark, _ in _TOOLS)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._seen: dict[str, None] = {}

    def feed(self, line: Line) -> int:
        """Take a line."""
        for tool, mark, pattern in _TOOLS:
            if mark in line.body and pattern.search(line.body):
                self._seen.setdefault(tool)
                self._draft.foreign = tool
                self._draft.generation += 1
                return FACT
        return PASS

    def finish(self) -> None:
        """Name the tools; their tables are not read, so the measurement is not whole."""
        for tool in self._seen:
            self._draft.formats.append(tool)
            self._draft.tool = tool
            self._draft.cut(f"a table of {tool}, which is not read here")
