"""Writes the record to disk while the session runs: after a case is finished the files are whole and valid.

A session of thousands of cases must not spend its time on writing the same cases again and again. Two things keep that
in bounds: each case and node is turned into JSON once, and a rewrite is put off until ten times the cost of the last
one has passed (a timer makes up for it, so the files are never behind by more than that). Files are replaced in one
step, so a reader, or a kill in the middle of a write, never sees half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster import Node
from reports.certificate import certificate_html, certificate_md
from reports.junit import nodes_xml
from reports.nodes import NodeLedger
from reports.record import CaseRecord, Part, Record, RunState
from reports.spending import Spending
from reports.verdict import because

REPORT = "report.json"
JUNIT_NODES = "junit-nodes.xml"
PATIENCE = 10.0
"""A rewrite waits this many times the cost of the one before: writing takes at most a tenth of the session."""

Projection = Callable[[Record], str]
PROJECTIONS: Mapping[str, Projection] = {JUNIT_NODES: nodes_xml}
"""What is kept beside report.json all the time."""
FINAL: Mapping[str, Callable[[Record, str], str]] = {
    "certificate.md": certificate_md,
    "certificate.html": certificate_html,
}
"""What is made at the end, from the record and the SHA-256 of the report.json it was written to."""


class Writer:
    """Keeps the files of one session up to date. Safe to call from several threads."""

    def __init__(
        self,
        directory: Path,
        head: Record,
        nodes: Iterable[Node],
        *,
        projections: Mapping[str, Projection] = PROJECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`head` is the record before the first case; `nodes` the inventory of the session, in its order."""
        self.directory = directory
        self._head = head
        self._ledger = NodeLedger(nodes)
        self._spending = Spending()
        self._cases: list[CaseRecord] = list(head.cases)
        self._projections = projections
        self._clock = clock
        self._json: dict[int, tuple[Part, str]] = {}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._next = 0.0
        self._closed = False
        for case in self._cases:
            self._take(case)
        directory.mkdir(parents=True, exist_ok=True)
        self._write()

    @property
    def record(self) -> Record:
        """The record as it stands."""
        with self._lock:
            grown = {
                "nodes": self._ledger.records(),
                "cases": list(self._cases),
                "budget": self._spending.budget(self._head.budget),
                "versions": self._spending.versions(self._head.versions),
            }
            body = self._head.model_copy(update=grown)
            outcome, reasons = because(body)
            return body.model_copy(update={"result": outcome, "because": reasons})

    def case(self, case: CaseRecord) -> None:
        """Add a finished case."""
        with self._lock:
            self._take(case)
            self._cases.append(case.model_copy(update={"identities": {}}) if case.identities else case)
            self._soon()

    def arrange(self, ids: Sequence[str]) -> None:
        """Put the cases into this order (several processes hand them in as they finish); unknown ones stay last."""
        place = {name: index for index, name in enumerate(ids)}
        with self._lock:
            self._cases.sort(key=lambda case: place.get(case.id, len(place)))

    def update(self, **parts: Any) -> None:
        """Replace parts of the record that become known later: `versions`, `budget`, `excluded`, `platform`."""
        with self._lock:
            checked = Record.model_validate({**dict(self._head), **parts})
            self._head = checked
            self._soon()

    def close(self, run_state: RunState, *, ended: str = "") -> Record:
        """Write the last state and stop; `ended` is RFC 3339. May be called again: the last call stands."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            session = self._head.session.model_copy(update={"ended": ended or self._head.session.ended})
            self._head = self._head.model_copy(update={"run_state": run_state, "session": session})
            digest = hashlib.sha256(self._write().encode()).hexdigest()
            record = self.record
            for name, project in FINAL.items():
                replace(self.directory / name, project(record, digest))
            return record

    def _take(self, case: CaseRecord) -> None:
        self._ledger.add(case)
        self._spending.add(case)

    def _soon(self) -> None:
        if self._closed:
            return
        wait = self._next - self._clock()
        if wait <= 0:
            self._write()
        elif self._timer is None:
            self._timer = threading.Timer(wait, self._overdue)
            self._timer.daemon = True
            self._timer.start()

    def _overdue(self) -> None:
        with self._lock:
            self._timer = None
            if not self._closed:
                self._write()

    def _write(self) -> str:
        """Write all that is kept up to date; returns the text of report.json."""
        began = self._clock()
        record = self.record
        text = self._document(record)
        replace(self.directory / REPORT, text)
        for name, project in self._projections.items():
            replace(self.directory / name, project(record))
        ended = self._clock()
        self._next = ended + PATIENCE * (ended - began)
        return text

    def _document(self, record: Record) -> str:
        """The record as JSON, one line a node and a case, from the pieces that are there already."""
        head = json.loads(record.model_copy(update={"nodes": [], "cases": []}).to_json())
        fields = {key: json.dumps(value, ensure_ascii=False) for key, value in head.items()}
        pieces: dict[int, tuple[Part, str]] = {}
        for key, parts in (("nodes", record.nodes), ("cases", record.cases)):
            fields[key] = "[" + ",\n".join(["", *(self._piece(part, pieces) for part in parts)])[1:] + "]"
        self._json = pieces
        return "{\n" + ",\n".join(f'"{key}": {text}' for key, text in fields.items()) + "\n}\n"

    def _piece(self, part: Part, pieces: dict[int, tuple[Part, str]]) -> str:
        # Keyed by identity, and the part is kept with its text: an id cannot be taken by another object meanwhile.
        pieces[id(part)] = self._json.get(id(part)) or (part, part.to_json())
        return pieces[id(part)][1]


def replace(path: Path, text: str) -> None:
    """Write `text` to `path` in one step: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
