"""What the readers of one log share while they read: what was found so far, and how a reader answers a line.

A reader answers `FACT` where the numbers of the line matter, `SEEN` where another line of the same shape would say
nothing new, `PASS` where the line is not its own. The driver skips shapes that only ever drew `PASS` or `SEEN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from measure.lines import Line
from measure.model import LogError, LogEvent, Result, Step, Table, ToolTable

PASS: Final = 0
SEEN: Final = 1
FACT: Final = 2

MAX_KEPT = 2000
"""Distinct errors, events or warnings kept of one log: a storm of them says no more than its first two thousand."""


@dataclass(slots=True)
class Draft:
    """A measurement in the making."""

    formats: list[str] = field(default_factory=list)
    collective: str | None = None
    ranks: int | None = None
    nodes: int | None = None
    tool: str | None = None
    tables: list[Table] = field(default_factory=list)
    tool_tables: list[ToolTable] = field(default_factory=list)
    per_rank: list[dict[str, Any]] = field(default_factory=list)
    cycles: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[LogError, None] = field(default_factory=dict)
    events: dict[LogEvent, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    transport: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    result_line: bool = False
    incomplete: list[str] = field(default_factory=list)
    """Why the log is not whole, in words; each becomes a warning."""
    bare_rows: bool = False
    """A table is open whose rows are nothing but numbers: no line can be told from them by a mark."""
    closed: bool = False
    """The end mark of what was read has been seen: a last line without line end then cuts nothing."""
    foreign: str | None = None
    """The tool whose table is running and which is not ours: rows without header are not taken meanwhile."""
    generation: int = 0
    """Raised by a reader when what a line means has changed: shapes skipped until then are looked at again."""
    holds: set[str] = field(default_factory=set)
    """Readers that wait for the rest of something: no line may be skipped meanwhile."""

    def error(self, error: LogError) -> None:
        """Keep an error once."""
        if len(self.errors) < MAX_KEPT:
            self.errors.setdefault(error)

    def event(self, event: LogEvent) -> None:
        """Keep an event once."""
        if len(self.events) < MAX_KEPT:
            self.events.setdefault(event)

    def warn(self, text: str) -> None:
        """Keep a warning once."""
        if len(self.warnings) < MAX_KEPT:
            self.warnings.setdefault(text)

    def hold(self, reader: str, waiting: bool) -> None:
        """Say that a reader begins or ends to wait for the rest of something."""
        if waiting:
            self.holds.add(reader)
        else:
            self.holds.discard(reader)

    def cut(self, why: str) -> None:
        """Say that something is missing from the log."""
        if why not in self.incomplete and len(self.incomplete) < MAX_KEPT:
            self.incomplete.append(why)


class Reader(Protocol):
    """One format. `feed` sees every line that may matter, in order; `finish` writes what was found into the draft.

    A line that holds none of the reader's `marks` may be kept from it, except while it holds the draft or rows of a
    table without marks of their own are open.
    """

    @property
    def marks(self) -> Sequence[str]:
        """Plain texts, at least one of which every line has that may matter."""

    def feed(self, line: Line) -> int:
        """Take a line; answer `PASS`, `SEEN` or `FACT`."""

    def finish(self) -> None:
        """The log has ended."""
