"""The programs that the model can answer for: what each prints, and when.

A program is asked for its length first (the ending of the run follows from it) and then plays its output, line by line
with the virtual second of each, under the faults that the run meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from catalog import format_size
from cluster.simulated.chance import Chance
from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.result import result_line
from cluster.simulated.sweep import KINDS, Healthy, bus_factor, measure, seconds_of, sizes_of
from cluster.simulated.timeline import STARTED_S
from cluster.simulated.training import Training
from cluster.simulated.transcript import HEADER, closing, nccl_lines, opening, table_row

CLOSING_S = 0.5
"""From the last row to the end of the process."""


class NoModel(Exception):  # noqa: N818 - what the run reports
    """The model cannot answer for this program: why."""


class Program(Protocol):
    """What a run executes."""

    repeats: int
    """Repeats of the measurement; some faults are drawn anew for each."""
    seconds: float
    """Virtual seconds from the end of the start-up to the end."""

    def play(self, exposed: Exposure, chance: Chance, noise: float) -> Iterator[tuple[float, str]]:
        """(virtual second since the launch, line) of rank 0's output, in order."""


class Collectives:
    """workloads/collectives.py: a sweep over message sizes."""

    def __init__(self, run: Situation, healthy: Healthy) -> None:
        work = run.workload
        self._run = run
        self._sizes = sizes_of(work)
        if not self._sizes:
            raise NoModel(
                f"no size up to {format_size(int(work.options.get('maxBytes', 0)))} holds an element for each of "
                f"{work.world_size} ranks: raise maxBytes"
            )
        self._healthy = healthy.busbw(run, self._sizes)
        self._ends = seconds_of(work, self._sizes, self._healthy)
        self.repeats = int(work.options.get("numCycles", 4))
        self.seconds = self._ends[-1] + CLOSING_S

    def play(self, exposed: Exposure, chance: Chance, noise: float) -> Iterator[tuple[float, str]]:
        """The lines of NCCL, the table, the result."""
        run, work = self._run, self._run.workload
        yield STARTED_S, opening(run, self._sizes)
        yield from ((STARTED_S, line) for line in nccl_lines(run, exposed))
        yield STARTED_S, HEADER
        rows = measure(run, list(zip(self._sizes, self._healthy, strict=True)), exposed, chance, noise)
        factor = bus_factor(work.collective, work.world_size)
        for row, end in zip(rows, self._ends, strict=True):
            yield STARTED_S + end, table_row(run, row, factor)
        last = STARTED_S + self.seconds
        yield last, closing(run, rows, factor)
        if work.framework == "torch":  # nccl-tests' own binaries, which mpi entries start, end with the table
            yield last, result_line(run, rows, exposed, chance)


def program_of(run: Situation, healthy: Healthy) -> Program:
    """The program that the workload names. Raises `NoModel` where there is none for it."""
    work = run.workload
    if work.collective in KINDS:
        return Collectives(run, healthy)
    if "maxSteps" in work.options:
        return Training(run, healthy.accelerator)
    raise NoModel(f"the simulated cluster has no model of {work.program} (entry {work.entry})")
