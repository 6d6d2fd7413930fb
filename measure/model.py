"""What a log said, as plain data: the one typed result every reader of this room fills and every other room reads.

A field is `None` where the log does not say (or says `nan`); nothing here is ever guessed. `to_json` is the public
contract of `python -m measure`: sizes in bytes, bandwidth in GB/s (10^9 bytes/s), times in the unit of the name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One half of an nccl-tests row. `error_raw` is the word of the old `error` column, which is no count of errors."""

    time_us: float | None = None
    algbw: float | None = None
    busbw: float | None = None
    wrong: int | None = None
    error_raw: str | None = None
    statistics: Mapping[str, float | None] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The four keys of the contract, and the others only where the log has them."""
        out: Json = {"time_us": self.time_us, "algbw": self.algbw, "busbw": self.busbw, "wrong": self.wrong}
        if self.error_raw is not None:
            out["error_raw"] = self.error_raw
        return out | dict(self.statistics)


@dataclass(frozen=True, slots=True)
class Row:
    """One message size of one table; in-place and out-of-place results side by side."""

    size: int
    count: int | None = None
    type: str | None = None
    redop: str | None = None
    root: int | None = None
    out_of_place: Cell | None = None
    in_place: Cell | None = None

    def to_json(self) -> Json:
        """Row of the contract."""
        return {
            "size": self.size,
            "count": self.count,
            "type": self.type,
            "redop": self.redop,
            "root": self.root,
            "out_of_place": self.out_of_place.to_json() if self.out_of_place else None,
            "in_place": self.in_place.to_json() if self.in_place else None,
        }


@dataclass(frozen=True, slots=True)
class Table:
    """One nccl-tests table. `avg_flag` and `out_of_bounds_status` are the words the program put behind its numbers."""

    rows: tuple[Row, ...] = ()
    avg_busbw: float | None = None
    out_of_bounds: int | None = None
    out_of_bounds_status: str | None = None
    avg_flag: str | None = None
    complete: bool = False
    collective: str | None = None

    def to_json(self) -> Json:
        """Table of the contract."""
        bounds = None
        if self.out_of_bounds is not None:
            bounds = {"count": self.out_of_bounds, "status": self.out_of_bounds_status}
        return {
            "rows": [row.to_json() for row in self.rows],
            "n_rows": len(self.rows),
            "avg_busbw": self.avg_busbw,
            "avg_flag": self.avg_flag,
            "out_of_bounds": bounds,
            "complete": self.complete,
            "collective": self.collective,
        }


@dataclass(frozen=True, slots=True)
class ToolTable:
    """A table of OSU, perftest or UCC: rows under the names of their printed columns, each with its unit."""

    tool: str
    rows: tuple[Mapping[str, Any], ...] = ()
    complete: bool = False
    unit: str | None = None

    def to_json(self) -> Json:
        """Table of the contract."""
        return {
            "tool": self.tool,
            "unit": self.unit,
            "rows": [dict(row) for row in self.rows],
            "n_rows": len(self.rows),
            "complete": self.complete,
        }


@dataclass(frozen=True, slots=True)
class LogError:
    """An error a log names. `peer` is whom the message names on the other side: a hint, never a verdict."""

    rank: int | None = None
    host: str | None = None
    what: str = ""
    peer: str | None = None

    def to_json(self) -> Json:
        """Error of the contract."""
        return {"host": self.host, "rank": self.rank, "peer": self.peer, "what": self.what}


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A hardware or driver message: `kind` (xid, sxid, gpu-lost, row-remap, ib, pcie, …), the device, its number."""

    kind: str
    what: str
    code: int | None = None
    device: str | None = None
    host: str | None = None
    rank: int | None = None

    def to_json(self) -> Json:
        """Event as JSON."""
        return {
            "kind": self.kind,
            "code": self.code,
            "device": self.device,
            "host": self.host,
            "rank": self.rank,
            "what": self.what,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One progress line of a training. `tokens_per_s` is the number as printed (`tokens_scope` says of what)."""

    step: int | None = None
    time_s: float | None = None
    tflops_per_gpu: float | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Step of the contract, then whatever else the line says."""
        return {
            "step": self.step,
            "time_s": self.time_s,
            "tflops_per_gpu": self.tflops_per_gpu,
            "loss": self.loss,
            "tokens_per_s": self.tokens_per_s,
        } | dict(self.extra)


@dataclass(frozen=True, slots=True)
class Result:
    """One test of a diagnostic on one GPU (`gpu` None: the tool does not say which)."""

    test: str
    status: str
    gpu: int | None = None
    error: str | None = None
    host: str | None = None
    category: str | None = None
    error_ids: tuple[int, ...] = ()
    info: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Result of the contract, with host and category beside it."""
        return {
            "gpu": self.gpu,
            "test": self.test,
            "status": self.status,
            "error": self.error,
            "host": self.host,
            "category": self.category,
            "error_ids": list(self.error_ids),
            "info": list(self.info),
        }


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything one log said.

    `complete` is True only when nothing shows that the log is cut: a format with an end mark must show it.
    `result_line` is True when the final JSON line of our own programs was read whole.
    """

    file: str = ""
    format: str = "unknown"
    formats: tuple[str, ...] = ()
    """Everything that was recognised in the log, `format` among it."""
    complete: bool = False
    collective: str | None = None
    ranks: int | None = None
    nodes: int | None = None
    tables: tuple[Table, ...] = ()
    tool_tables: tuple[ToolTable, ...] = ()
    per_rank: tuple[Mapping[str, Any], ...] = ()
    cycles: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[LogError, ...] = ()
    events: tuple[LogEvent, ...] = ()
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, Any] = field(default_factory=dict)
    transport: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    results: tuple[Result, ...] = ()
    hosts: tuple[str, ...] = ()
    tool: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    result_line: bool = False

    def to_json(self) -> Json:
        """The document `python -m measure` prints for a file."""
        document: Json = _finite(self._document())
        return document

    def _document(self) -> Json:
        return {
            "file": self.file,
            "format": self.format,
            "formats": list(self.formats),
            "complete": self.complete,
            "collective": self.collective,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "hosts": list(self.hosts),
            "tool": self.tool,
            "tables": [t.to_json() for t in self.tables] + [t.to_json() for t in self.tool_tables],
            "per_rank": [dict(entry) for entry in self.per_rank],
            "cycles": [dict(entry) for entry in self.cycles],
            "errors": [error.to_json() for error in self.errors],
            "events": [event.to_json() for event in self.events],
            "warnings": list(self.warnings),
            "versions": dict(self.versions),
            "transport": dict(self.transport),
            "steps": [step.to_json() for step in self.steps],
            "results": [result.to_json() for result in self.results],
            "details": dict(self.details),
            "result_line": self.result_line,
        }


def _finite(value: Any) -> Any:
    """The same value with None for every nan and infinity: JSON has no word for them, and they are no measurement."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
