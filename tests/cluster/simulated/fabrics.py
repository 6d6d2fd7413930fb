"""Small fabrics written in a test's own words, workloads on them, and what a run measured."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import catalog
from cluster import Run, Stop, Workload
from cluster.simulated import SimulatedCluster


@cache
def shipped() -> catalog.Catalog:
    return catalog.load()


def fabric(nodes: int | list[str] = 16, faults: Sequence[Mapping[str, Any]] = (), **keys: Any) -> SimulatedCluster:
    """A cluster from the keys of a simulation file; without noise unless the test asks for it."""
    content = {"nodes": nodes, "noise": 0.0, "faults": [dict(fault) for fault in faults], **keys}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simulation.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return SimulatedCluster.from_file(path, shipped())


def names(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"node-{number:03d}" for number in numbers)


def workload(nodes: Iterable[str], entry: str = "nccl-all-reduce", **changes: Any) -> Workload:
    """The workload of a communication entry; a small sweep of four sizes up to 1G unless `options` says otherwise."""
    row = shipped().entry(entry)
    small = {"minBytes": "1M", "maxBytes": "1G", "stepFactor": 8}
    options = row.resolve_options({**small, **changes.pop("options", {})})
    settled: dict[str, Any] = {
        "name": "run",
        "case": f"{entry}-full-scale",
        "framework": row.framework,
        "program": row.program,
        "ranks_per_node": 8,
        "backend": "nccl",
        "env": row.env,
        "collective": row.collective or "",
        "traffic": row.traffic,
    }
    return Workload(entry=entry, nodes=tuple(nodes), options=options, **{**settled, **changes})


def run(cluster: SimulatedCluster, work: Workload) -> Run:
    return cluster.run(work, Stop(), lambda _line: None)


def result(done: Run) -> dict[str, Any]:
    """The final JSON line of a complete run."""
    last = done.log.decode().splitlines()[-1]
    assert last.startswith("CLUSTERPROOF-RESULT "), last
    content: dict[str, Any] = json.loads(last.removeprefix("CLUSTERPROOF-RESULT "))
    return content


def cycles(done: Run) -> list[float]:
    """Out-of-place bus bandwidth at the largest size, for each repeat."""
    return [cycle["rows"][-1]["busbw"] for cycle in result(done)["cycles"]]


def share(faults: Sequence[Mapping[str, Any]], work: Workload, nodes: int | list[str] = 16, **keys: Any) -> float:
    """What `faults` leave of the healthy bandwidth of `work` in its worst repeat."""
    sick = min(cycles(run(fabric(nodes, faults, **keys), work)))
    well = min(cycles(run(fabric(nodes, **keys), work)))
    return round(sick / well, 3)
