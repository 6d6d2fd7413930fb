"""The cluster that answers from stored runs: the same nodes, the same logs, whatever is asked of them now.

A workload is the stored one where case, nodes and shape (collective, rail, NVLink, algorithm) are the same. Of several
runs of one shape (an isolation's repeats) each is given once, in the order in which they ran. What was never run cannot
be answered: such a run ends `launch_failed` and says so.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cluster.model import Inventory, Run, RunState, Workload
from cluster.protocol import ClusterError, Progress, Stop
from cluster.replay.store import FOLDER, INVENTORY, RUN, RUN_SCHEMA, SESSION, Session

NOT_STORED = "no stored run of this case on these nodes"


def key_of(workload: Workload) -> Hashable:
    """What makes two workloads the same measurement."""
    return (
        workload.case,
        workload.nodes,
        workload.collective,
        workload.traffic,
        workload.mnnvl,
        workload.rail,
        workload.env.get("NCCL_ALGO", ""),
    )


class ReplayCluster:
    """Stored runs behind the `Cluster` protocol."""

    name = "replay"

    def __init__(self, directory: Path) -> None:
        """`directory`: a session's reports, or the folder `logs` in them. Raises `ClusterError` for anything else."""
        inner = directory / FOLDER
        self._folder = inner if (inner / INVENTORY).is_file() else directory
        self.session = _session(self._folder)
        self._runs: dict[Hashable, dict[int, Run]] = {}
        self._lock = threading.Lock()
        self._probed: set[str] = set()
        for path in sorted(self._folder.glob("*.json")):
            if path.name != INVENTORY:
                self._add(_run(path))

    def _add(self, run: Run) -> None:
        workload = run.workload
        self._runs.setdefault(key_of(workload), {})[workload.attempt] = run
        if workload.attempt:
            self._probed.add(workload.case)

    def nodes(self) -> Inventory:
        """The snapshot that the stored session worked with."""
        session = self.session
        how = f"stored logs of session {session.id} on the {session.cluster} cluster, {session.started}"
        return replace(session.inventory, detected_by=how)

    def run(self, workload: Workload, stop: Stop, progress: Progress) -> Run:  # noqa: ARG002 — the protocol's form
        """The stored run of this workload."""
        if stop:
            return Run(workload, RunState.CANCELLED, stop.reason)
        with self._lock:
            stored = self._take(workload)
        if stored is None:
            return Run(workload, RunState.LAUNCH_FAILED, NOT_STORED)
        path = self._folder / f"{stored.workload.name}.log"
        try:
            return replace(stored, log=path.read_bytes())
        except OSError as error:
            return Run(workload, RunState.LAUNCH_FAILED, f"{path}: {error.strerror}")

    def _take(self, workload: Workload) -> Run | None:
        """A case's own run stays; each rerun is given once, the one of the same attempt before the others."""
        stored = self._runs.get(key_of(workload), {})
        if not workload.attempt:
            return stored.get(0)
        if workload.attempt in stored:
            return stored.pop(workload.attempt)
        reruns = sorted(attempt for attempt in stored if attempt)
        return stored.pop(reruns[0]) if reruns else None

    def missing(self, workload: Workload) -> str:
        """Why a case's workload cannot be answered; empty where it can."""
        stored = self._runs.get(key_of(workload), {}).get(0)
        if stored is None:
            return f"{NOT_STORED}; the stored session was: {' '.join(self.session.command) or 'unknown'}"
        differing = {
            name: (stored.workload.options.get(name), asked)
            for name, asked in workload.options.items()
            if stored.workload.options.get(name) != asked
        }
        if differing:
            return "the stored run had other options: " + ", ".join(
                f"{name} {had}, asked for {asked}" for name, (had, asked) in differing.items()
            )
        return ""

    def probed(self, case: str) -> bool:
        """Whether reruns of the case are stored, so that its isolation can be followed again."""
        return case in self._probed

    def close(self) -> None:
        """Nothing was started, so nothing is left."""


def _session(folder: Path) -> Session:
    path = folder / INVENTORY
    if not path.is_file():
        raise ClusterError(
            f"--replay {folder}: expected a session's reports with raw logs ({FOLDER}/{INVENTORY}), found none; they "
            f"are kept by default, on a simulated cluster with --keep-logs"
        )
    try:
        return SESSION.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ClusterError(f"--replay: {path}: {_first(error)}") from None


def _run(path: Path) -> Run:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.pop("schema", None) != RUN_SCHEMA:
            raise ClusterError(f"--replay: {path}: expected a stored run ({RUN_SCHEMA}); remove the file")
        return RUN.validate_python(data, strict=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--replay: {path}: {_first(error)}") from None


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return str(error)
