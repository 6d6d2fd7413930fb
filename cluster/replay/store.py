"""What is kept of each run: the leader's log as it was, and beside it the run's description as plain JSON.

    logs/inventory.json      the session: nodes, kind of cluster, when it began
    logs/<workload>.log      standard output of rank 0's node, as bytes
    logs/<workload>.json     workload, state, exits, events, tails of failed nodes

Bounded: a log over 16 MiB keeps its first 4 and last 12 MiB with a line between them that says how much is missing (the
readers' table is at the start, the result line at the end), and a session keeps at most 2 GiB. What cannot be written
is said once and stops no run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from cluster.model import Inventory, Run

FOLDER = "logs"
INVENTORY = "inventory.json"
RUN_SCHEMA = "clusterproof.run/v1"
SESSION_SCHEMA = "clusterproof.runs/v1"
HEAD_BYTES = 4 << 20
TAIL_BYTES = 12 << 20
SESSION_BYTES = 2 << 30


@dataclass(frozen=True)
class Session:
    """What a replay must know of the session that ran."""

    id: str
    cluster: str
    """`local`, `simulated` or `kubernetes`."""
    started: str
    """RFC 3339."""
    origin: float
    """The session's start on the clock of its runs."""
    lanes: int
    command: tuple[str, ...]
    inventory: Inventory
    schema: Literal["clusterproof.runs/v1"] = "clusterproof.runs/v1"


SESSION: TypeAdapter[Session] = TypeAdapter(Session)
RUN: TypeAdapter[Run] = TypeAdapter(Run)


class RawLogs:
    """Keeps the runs of one session under `<report directory>/logs`. Safe to call from several threads."""

    def __init__(self, reports: Path, *, most_bytes: int = SESSION_BYTES) -> None:
        self._folder = reports / FOLDER
        self._left = most_bytes
        self._lock = threading.Lock()
        self._kept: set[str] = set()
        self.trouble = ""
        """Why some runs were not kept; empty where all were."""

    def begin(self, session: Session, *, resumed: bool = False) -> None:
        """Make the folder, without an earlier session's runs unless it is resumed, and write down the session."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not resumed:
                _remove_earlier(self._folder)
            (self._folder / INVENTORY).write_bytes(json.dumps(plain(session)).encode())
        except OSError as error:
            self.trouble = f"raw logs are not kept: {error}"

    def path(self, run: Run) -> str:
        """Where the run's log lies, relative to the reports; empty where it was not kept."""
        name = run.workload.name
        return f"{FOLDER}/{name}.log" if name in self._kept else ""

    def keep(self, run: Run) -> None:
        """Write one run."""
        name = run.workload.name
        log = bounded(run.log)
        text = json.dumps({"schema": RUN_SCHEMA, **plain(run)}, separators=(",", ":"))
        with self._lock:
            if self.trouble:
                return
            self._left -= len(log) + len(text)
            if self._left < 0:
                self.trouble = f"raw logs are kept up to {SESSION_BYTES >> 30} GiB: those of later runs are not"
                return
        try:
            (self._folder / f"{name}.log").write_bytes(log)
            (self._folder / f"{name}.json").write_text(text, encoding="utf-8")
        except OSError as error:
            self.trouble = f"raw logs are not kept: {error}"
        else:
            self._kept.add(name)


def plain(value: Any) -> Any:
    """The value as JSON has it: fields and mappings as objects, a run's log (it has a file of its own) left out."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.name != "log"}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def bounded(log: bytes) -> bytes:
    """The log, or its start and end with a line between them that says how many bytes are left out."""
    left_out = len(log) - HEAD_BYTES - TAIL_BYTES
    if left_out <= 0:
        return log
    return log[:HEAD_BYTES] + f"\n# clusterproof: {left_out} bytes left out\n".encode() + log[-TAIL_BYTES:]


def _remove_earlier(folder: Path) -> None:
    """Only what an earlier session of ours has written: the folder may hold other files."""
    if not (folder / INVENTORY).is_file():
        return
    for description in folder.glob("*.json"):
        log = description.with_suffix(".log")
        if log.is_file():
            log.unlink()
            description.unlink()
    (folder / INVENTORY).unlink()
