"""The simulated cluster: real workloads, answered by a model of a fabric in virtual time.

A run takes milliseconds of wall time and as many virtual seconds as it would really take. Every node has a clock of its
own: a run starts when the last of its nodes is free and moves the clocks of its nodes to its end, so that runs on other
nodes, threads and their order change nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from catalog import Catalog, CatalogError
from cluster.model import Inventory, RankExit, Run, RunState, Workload
from cluster.protocol import ClusterError, Progress, Stop
from cluster.simulated.chance import Chance
from cluster.simulated.checks import load
from cluster.simulated.exposure import Situation, exposure
from cluster.simulated.layout import Layout
from cluster.simulated.program import NoModel, program_of
from cluster.simulated.spec import Fault, Simulation, TransientFault
from cluster.simulated.sweep import Healthy
from cluster.simulated.timeline import QUEUED_S, STARTED_S, Ending, ending, exits, peer_lines
from cluster.simulated.transcript import VERSIONS

TRANSIENT_SHARE = 0.5
"""What a transient fault leaves of the speed of the run that it spoils."""
MOST_TAILS = 32
"""Nodes whose last lines are kept when ranks fail, as on Kubernetes."""


@dataclass(frozen=True)
class Model:
    """What the simulation file says, with everything that follows from it."""

    spec: Simulation
    faults: tuple[Fault, ...]
    layout: Layout


class SimulatedCluster:
    """A model of a fabric with injected faults, behind the `Cluster` protocol."""

    name = "simulated"

    def __init__(self, model: Model, catalog: Catalog) -> None:
        self._model = model
        self._healthy = Healthy(catalog.accelerator_for(model.spec.product), model.layout)
        self._lock = threading.Lock()
        self._clock: dict[str, float] = {}
        self._transient: Counter[str] = Counter()
        for fault in model.faults:
            if isinstance(fault, TransientFault):
                self._transient[fault.case] += fault.times

    @classmethod
    def from_file(cls, path: str | Path, catalog: Catalog) -> SimulatedCluster:
        """The cluster that a simulation file describes. Raises `ClusterError` with every problem of the file."""
        try:
            return cls(Model(*load(path, catalog)), catalog)
        except CatalogError as error:
            raise ClusterError(str(error)) from None

    def nodes(self) -> Inventory:
        """All nodes, in topology order."""
        return Inventory(
            nodes=self._model.layout.nodes, platform=self._model.spec.platform, detected_by="simulation file"
        )

    def run(self, workload: Workload, stop: Stop, progress: Progress) -> Run:
        """Answer a workload at once, with the log, exits and events of a real run and its virtual times."""
        unknown = [node for node in workload.nodes if node not in self._model.layout.by_name]
        if unknown:
            raise ClusterError(f"{workload.name}: the simulation has no node {', '.join(unknown[:5])}")
        with self._lock:
            start = max((self._clock.get(node, 0.0) for node in workload.nodes), default=0.0)
        if stop:
            return Run(workload, RunState.CANCELLED, stop.reason, started=start, ended=start)
        run = self._answer(workload, start, progress)
        with self._lock:
            self._clock.update(dict.fromkeys(workload.nodes, run.ended))
        return run

    def close(self) -> None:
        """Nothing was started, so nothing is left."""

    def _answer(self, workload: Workload, start: float, progress: Progress) -> Run:
        situation = Situation(workload, self._model.layout)
        spec, faults = self._model.spec, self._model.faults
        try:
            program = program_of(situation, self._healthy)
        except (NoModel, CatalogError) as error:
            return Run(workload, RunState.LAUNCH_FAILED, str(error), started=start, ended=start)
        chance = Chance(spec.seed, workload.entry, workload.nodes, workload.attempt)
        exposed = exposure(situation, faults, chance, program.repeats)
        end = ending(situation, faults, exposed, start, program.seconds)
        if end.state is RunState.SUCCEEDED and self._spoiled(workload.entry):
            exposed = replace(exposed, factors=tuple(min(TRANSIENT_SHARE, factor) for factor in exposed.factors))
        if end.at > QUEUED_S and end.state is not RunState.UNSCHEDULABLE:
            progress(f"running {len(workload.nodes)}/{len(workload.nodes)}")
        ranks = exits(situation, end)
        return Run(
            workload=workload,
            state=end.state,
            message=end.message,
            exits=ranks,
            log=_log(program.play(exposed, chance, spec.noise), situation, end, ranks),
            tails=_tails(end, ranks),
            events=end.events,
            started=start,
            ended=start + end.at,
            durations=_durations(end),
            versions=VERSIONS if end.state is RunState.SUCCEEDED else {},
        )

    def _spoiled(self, entry: str) -> bool:
        """Whether a transient fault of this entry still has a run to spoil."""
        with self._lock:
            if not self._transient[entry]:
                return False
            self._transient[entry] -= 1
            return True


def _log(output: Iterable[tuple[float, str]], situation: Situation, end: Ending, ranks: Sequence[RankExit]) -> bytes:
    """What rank 0's node wrote until the end; where ranks failed, their last words behind it."""
    lines = [text for _, text in takewhile(lambda line: line[0] <= end.log_until, output)]
    if end.state is RunState.FAILED:
        lines += peer_lines(situation, end)
        lines += [each.tail for each in ranks[: situation.workload.ranks_per_node]]
    return "".join(f"{line}\n" for line in lines).encode()


def _tails(end: Ending, ranks: Sequence[RankExit]) -> dict[str, str]:
    """Last lines of the nodes whose ranks failed, those that failed first before the others."""
    tails: dict[str, list[str]] = {}
    if end.state is RunState.FAILED:
        for each in sorted(ranks, key=lambda each: each.at):
            if each.node in tails or len(tails) < MOST_TAILS:
                tails.setdefault(each.node, []).append(each.tail)
    return {node: "\n".join(lines) for node, lines in tails.items()}


def _durations(end: Ending) -> dict[str, float]:
    """Virtual seconds by phase, as far as the run came."""
    queued = end.at if end.state is RunState.UNSCHEDULABLE else min(end.at, QUEUED_S)
    starting = min(end.at - queued, STARTED_S - QUEUED_S)
    return {"queued": queued, "pulling": 0.0, "starting": starting, "running": end.at - queued - starting}
