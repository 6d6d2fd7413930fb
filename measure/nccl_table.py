"""nccl-tests and rccl-tests output: the tables, their headers and footers, the devices, and whether all of it is there.

One state for each writer (rank tag, pod), so that two interleaved tables stay two. A table is complete when its header,
its footer and every size of its sweep were seen and no line of it was torn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from measure import nccl_collective
from measure.draft import FACT, PASS, SEEN, Draft
from measure.lines import Line
from measure.model import LogError, Row, Table
from measure.nccl_rows import Header, Torn, header, row
from measure.nccl_sweep import Plan, gaps
from measure.numbers import number

_DEVICE = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*?)\s*$"
)
_PLAN = re.compile(
    r"minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\)(?:.*?validation: (\d+))?",
)
_REDUCED = re.compile(r"Reducing maxBytes to (\d+)")
_PROGRAM = re.compile(r"Collective test (starting|concluded): (\w+?)(?:_perf)?\s*$")
_COMMAND = re.compile(r"(?<![\w])(" + "|".join(nccl_collective.COLLECTIVES) + r")_perf\b")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)(?=\s)\s*(OK|FAILED)?")
_AVERAGE = re.compile(r"(?:#\s*|^\s*)Avg bus bandwidth\s+:\s*([-+\w.]+)(?=\s|$)\s*(OK|FAILED)?(?!\s*[KMG]i?B)")
_VERSIONS = re.compile(r"nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_RCCL = re.compile(r"rccl-tests: Version (\S+)")
_FAILURE = re.compile(r"(?:([\w.-]+): )?Test (NCCL|CUDA) failure ([\w./]+:\d+) '(.*)'")
_HEADER = re.compile(r"(?:#|^)\s*size\s+count\s+type\b.*algbw")
_LAST_ERROR = re.compile(r"^# error: (.*\S)")
_HOST = re.compile(r"[A-Za-z][\w.-]*")
_ROW_HINT = re.compile(r"\d\s+\d+\s+(?:float|half|int|uint|double|bfloat|f8|fp8|char)")
_PIECE = re.compile(r"(?:^|\s)\d+\.\d\d?\s+\d+\.\d\d?\s+(?:\d+|N/A|\de[-+]\d\d)(?:\s|$)")
_ELISION = re.compile(r"\s*\[?(?:\.\.\.|…)\]?\s*")


@dataclass(slots=True)
class _Open:
    """A table in the making, of one writer."""

    columns: Header | None = None
    seen_header: bool = False
    plan: Plan | None = None
    rows: list[Row] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """How far behind its type each row ends: the columns have fixed widths."""
    bounds: tuple[int, str | None] | None = None
    average: float | None = None
    average_seen: bool = False
    flag: str | None = None
    torn: list[str] = field(default_factory=list)
    elided: bool = False
    name: str | None = None
    concludes: bool | None = None
    """Whether the line of a program that announces its end was seen; None where it did not announce its beginning."""

    def begun(self) -> bool:
        """Whether anything of the table itself was seen."""
        return bool(self.rows or self.bounds or self.average_seen or self.torn)


class NcclTables:
    """Reader of nccl-tests text."""

    marks = (
        "algbw", "Pid", "bandwidth", "Out of bounds", "minBytes", "Reducing maxBytes", "Collective test", "nccl-tests",
        "# error", "_perf", " failure ", "rccl-tests", "...", "…",
        *(f"{blank}{kind}" for kind in ("float", "half", "int", "uint", "double", "bfloat", "f8", "fp8", "char")
          for blank in ("  ", "\t")),
    )  # fmt: skip

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: dict[str, _Open] = {}
        self._done: list[_Open] = []
        self._devices: dict[int, str] = {}
        self._ranks: dict[int, str] = {}
        self._runs = 1
        self._commands: dict[str, None] = {}
        self._seen = False
        self._validation: int | None = None
        self._gpus: dict[str, None] = {}
        self._rccl = False
        self._marks: tuple[tuple[str, re.Pattern[str], Callable[[Line, re.Match[str]], None]], ...] = (
            ("algbw", _HEADER, self._header),
            ("# ", _DEVICE, self._device),
            ("bandwidth", _AVERAGE, self._average),
            ("Out of bounds", _BOUNDS, self._bounds),
            ("minBytes", _PLAN, self._announce),
            ("Reducing maxBytes", _REDUCED, self._reduced),
            ("Collective test", _PROGRAM, self._program),
            ("nccl-tests version", _VERSIONS, self._versions),
            ("# error: ", _LAST_ERROR, self._last_error),
            ("_perf", _COMMAND, self._command),
            (" failure ", _FAILURE, self._failure),
            ("rccl-tests: Version", _RCCL, self._rccl_version),
        )

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if _ROW_HINT.search(body):
            return PASS if self._draft.foreign else self._row(line)
        if self._open and _PIECE.search(body):
            return self._piece()
        for mark, pattern, take in self._marks:
            if mark in body and (match := pattern.search(body)):
                take(line, match)
                self._seen = True
                return FACT
        if len(body) < 12 and _ELISION.fullmatch(body):
            for table in self._open.values():
                table.elided = True
            return FACT
        return SEEN if body.strip() == "#" else PASS

    def _table(self, source: str) -> _Open:
        """The table of a writer; a first one starts the format and wakes the shapes skipped so far."""
        table = self._open.get(source)
        if table is None:
            table = self._open[source] = _Open()
            self._draft.generation += 1
        return table

    def _row(self, line: Line) -> int:
        table = self._table(line.source)
        found = row(line.body, table.columns)
        if found is None:
            if table.seen_header:
                table.torn.append("a row is torn: its size is glued to something else")
            return FACT if table.seen_header else PASS
        self._seen = True
        if isinstance(found, Torn):
            table.torn.append(f"a row is torn: {found.why}")
            return FACT
        places = {*table.ends[-1:], *([table.columns.end] if table.columns else [])}
        if not line.whole and found.end < max(places, default=found.end + 1):
            table.torn.append("the last row has no end")
            return FACT
        # What stands behind a row may have taken its last field away: it must end where the other rows end.
        if found.glued and found.end not in places:
            table.torn.append("a row is torn: something else stands in its last field")
            return FACT
        if table.average_seen or (table.bounds and table.columns is None):
            table = self._next(line.source)
        table.rows.append(found.row)
        table.ends.append(found.end)
        return FACT

    def _piece(self) -> int:
        """The end of a row whose beginning another writer tore off: whose it was, nobody can say."""
        for table in self._open.values():
            if table.seen_header and not table.average_seen:
                table.torn.append("a row is torn: its beginning is missing")
                return FACT
        return PASS

    def _next(self, source: str) -> _Open:
        """Close a writer's table and open its next one."""
        old = self._open[source]
        self._done.append(old)
        # The plan holds for every table of one run; the columns only until the next header.
        fresh = self._open[source] = _Open(plan=old.plan, name=None)
        return fresh

    def _program(self, line: Line, match: re.Match[str]) -> None:
        table = self._table(line.source)
        if match.group(1) == "starting":
            if table.begun():
                table = self._next(line.source)
            table.concludes = False
        elif line.whole or match.group(2) == table.name:
            # The program's last words come behind its table, which a next one may have closed already.
            table.concludes = True
        if line.whole:
            table.name = match.group(2)

    def _command(self, line: Line, match: re.Match[str]) -> None:
        del line
        self._commands.setdefault(match.group(1))

    def _announce(self, line: Line, match: re.Match[str]) -> None:
        table = self._table(line.source)
        if table.begun():
            table = self._next(line.source)
        table.plan = Plan(int(match.group(1)), int(match.group(2)), int(match.group(3)), match.group(4) == "factor")
        if match.group(5):
            self._validation = int(match.group(5))
        self._devices = {}

    def _reduced(self, line: Line, match: re.Match[str]) -> None:
        plan = self._table(line.source).plan
        if plan:
            plan.last = min(plan.last, int(match.group(1)))

    def _header(self, line: Line, match: re.Match[str]) -> None:
        table = self._table(line.source)
        if table.begun():
            table = self._next(line.source)
        table.columns = header(line.body[match.start() :])
        table.seen_header = True
        self._draft.foreign = None
        self._devices = {}
        self._draft.generation += 1

    def _device(self, line: Line, match: re.Match[str]) -> None:
        del line
        rank, host, gpu = int(match.group(1)), match.group(2), match.group(3)
        if self._devices.setdefault(rank, host) != host:
            self._runs += 1
            self._draft.warn(f"rank {rank} stands on two hosts: independent runs of a program built without MPI?")
        self._ranks[rank] = host
        self._draft.hosts.setdefault(host)
        if gpu:
            self._gpus.setdefault(gpu)

    def _bounds(self, line: Line, match: re.Match[str]) -> None:
        self._table(line.source).bounds = (int(match.group(1)), match.group(2))

    def _average(self, line: Line, match: re.Match[str]) -> None:
        table = self._table(line.source)
        table.average = number(match.group(1))
        table.average_seen = line.whole or line.body.endswith((" ", "\t")) or match.group(2) is not None
        table.flag = match.group(2)

    def _versions(self, line: Line, match: re.Match[str]) -> None:
        del line
        tests, headers, library = match.groups()
        self._draft.versions.update(nccl_tests=tests, nccl=version(int(library)), nccl_headers=version(int(headers)))

    def _rccl_version(self, line: Line, match: re.Match[str]) -> None:
        del line
        self._draft.versions["rccl_tests"] = match.group(1)
        self._rccl = True

    def _failure(self, line: Line, match: re.Match[str]) -> None:
        host, what, where, text = match.groups()
        # The program prints its host in front, which looks like a launcher's prefix.
        named = line.source.rpartition(" ")[2]
        self._draft.error(
            LogError(host=host or (named if _HOST.fullmatch(named) else None), what=f"{what} failure {where} '{text}'")
        )

    def _last_error(self, line: Line, match: re.Match[str]) -> None:
        del line
        self._draft.error(LogError(what=match.group(1)))

    def finish(self) -> None:
        """Close every table and write the run's facts into the draft."""
        draft = self._draft
        tables = [*self._done, *self._open.values()]
        kept = [table for table in tables if table.begun()]
        if not kept:
            kept = [table for table in tables if table.seen_header or table.plan][:1]
        if not (self._seen or kept):
            return
        draft.formats.append("rccl-tests" if self._rccl else "nccl-tests")
        for table in kept:
            draft.tables.append(self._close(table))
        draft.closed = draft.closed or all(table.complete for table in draft.tables)
        self._whole_run(kept)

    def _close(self, table: _Open) -> Table:
        command = next(iter(self._commands)) if len(self._commands) == 1 else None
        _drop_short_rows(table)
        for why in _missing(table):
            self._draft.cut(why)
        if table.average_seen and table.flag == "FAILED":
            self._draft.warn("the program's own check of the average bus bandwidth says FAILED")
        return Table(
            rows=tuple(table.rows),
            avg_busbw=table.average,
            out_of_bounds=table.bounds[0] if table.bounds else None,
            out_of_bounds_status=table.bounds[1] if table.bounds else None,
            avg_flag=table.flag,
            complete=not _missing(table) and self._runs == 1,
            collective=table.name or command or nccl_collective.infer(table.rows, table.columns),
        )

    def _whole_run(self, kept: list[_Open]) -> None:
        draft = self._draft
        names = {table.collective for table in draft.tables if table.collective}
        if len(names) == 1:
            draft.collective = names.pop()
        if self._ranks:
            draft.ranks = max(self._ranks) + 1
            if len(self._ranks) == draft.ranks:
                draft.nodes = len(set(self._ranks.values()))
        elif kept:
            draft.ranks = draft.ranks or nccl_collective.ranks(kept[-1].rows)
        if self._runs > 1:
            draft.cut("several runs are mixed in this log")
            draft.details["independent_runs"] = self._runs
        rows = [made for table in kept for made in table.rows]
        if self._validation is None and rows and not any(map(_checked, rows)):
            self._validation = 0
        if self._validation is not None:
            draft.details["validation"] = self._validation
        if self._gpus:
            draft.details["gpu"] = next(iter(self._gpus)) if len(self._gpus) == 1 else list(self._gpus)
        if not kept:
            draft.cut("no table: the run ended before its first row")


def _drop_short_rows(table: _Open) -> None:
    """Rows that end before their columns do, where the table has fixed columns: another writer broke them off."""
    if not table.ends or (table.columns and table.columns.timestamp):
        return
    end = table.columns.end if table.columns else max(table.ends, key=table.ends.count)
    # One row under its header's last column shows that they are aligned; among themselves most rows must agree.
    if table.ends.count(end) <= (0 if table.columns else len(table.ends) // 2):
        return
    whole = [row for row, at in zip(table.rows, table.ends, strict=True) if at >= end]
    if len(whole) < len(table.rows):
        table.torn.append("a row is torn: it ends before its last column")
        table.rows = whole
        table.ends = [at for at in table.ends if at >= end]


def _missing(table: _Open) -> list[str]:
    """What a table lacks, in words."""
    out = list(dict.fromkeys(table.torn))
    if not table.seen_header:
        out.append("the table's header is missing")
    if not table.rows:
        out.append("the table has no rows")
    if table.bounds is None:
        out.append("the line 'Out of bounds values' is missing")
    if not table.average_seen:
        out.append("the line 'Avg bus bandwidth' is missing or cut")
    if table.concludes is False:
        out.append("the line 'Collective test concluded' is missing")
    if table.elided:
        out.append("lines were left out ('...')")
    out.extend(gaps(table.plan, [made.size for made in table.rows]))
    return out


def _checked(made: Row) -> bool:
    """Whether the results of a row were compared with what they should be."""
    cells = [cell for cell in (made.out_of_place, made.in_place) if cell]
    return any(cell.wrong is not None or cell.error_raw not in (None, "N/A") for cell in cells)


def version(code: int) -> str:
    """NCCL_VERSION_CODE as a version (nccl.h: major*10000 + minor*100 + patch; before 2.9: major*1000 + …)."""
    base = 10000 if code >= 10000 else 1000
    return f"{code // base}.{code % base // 100}.{code % 100}"
