"""How fast the simulated machines are: message sizes, healthy bandwidths, and the cells that a run's repeats measure.

The healthy bandwidth is the catalog's figure for the accelerator, the one number that model and judge share. Sizes and
the rounding of pieces follow workloads/collectives.py, whose output this room imitates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catalog import Accelerator, healthy_busbw, size_factor
from catalog import sweep as message_sizes
from cluster.model import Workload
from cluster.simulated.chance import Chance
from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.layout import Layout
from cluster.simulated.spec import NodeFault

ALIGNMENT = 16
"""Bytes that a rank's piece is rounded down to, as in nccl-tests and collectives.py."""
WIDTHS: Mapping[str, int] = {
    "int8": 1,
    "uint8": 1,
    "half": 2,
    "bfloat16": 2,
    "int32": 4,
    "float": 4,
    "int64": 8,
    "double": 8,
}
UNKNOWN_PLATEAU: Mapping[str, float] = {"scale-up": 100.0, "fabric": 40.0}
"""GB/s of a machine that the catalog cannot tell anything about: such a run must measure something."""
GLOO_PLATEAU = 2.0
"""GB/s between CPU processes: shown, never judged by a GPU's figure."""
ONE_RANK_ALGBW = 1000.0
"""GB/s at which one rank copies to itself: bus bandwidth of a single rank is 0 by definition."""
CHECK_S = 0.02
"""Filling buffers and checking results, for each cell of the table."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the table of nccl-tests says of a collective."""

    redop: str = "none"
    root: int = -1
    pieces: bool = False
    in_place: bool = True


KINDS: Mapping[str, Kind] = {
    "all_reduce": Kind(redop="sum"),
    "all_gather": Kind(pieces=True),
    "reduce_scatter": Kind(redop="sum", pieces=True),
    "alltoall": Kind(pieces=True, in_place=False),
    "broadcast": Kind(root=0),
    "sendrecv": Kind(in_place=False),
}


def bus_factor(collective: str, ranks: int) -> float:
    """The quotient busbw / algbw (nccl-tests, doc/PERFORMANCE.md)."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if KINDS[collective].pieces else 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """One message size."""

    requested: int
    count: int
    """Elements of one piece."""
    nbytes: int


def sizes_of(workload: Workload) -> tuple[Size, ...]:
    """The sizes that the run sweeps, smallest first; empty where none holds an element for each rank."""
    options = workload.options
    width = WIDTHS.get(str(options.get("dtype", "float")), 4)
    kind, ranks = KINDS[workload.collective], workload.world_size
    found: dict[int, Size] = {}
    requested_sizes = message_sizes(
        int(options.get("minBytes", 8)), int(options.get("maxBytes", 2**34)), int(options.get("stepFactor", 2))
    )
    for requested in requested_sizes:
        count = requested // width
        if kind.pieces:
            line = max(1, ALIGNMENT // width)
            count = count // ranks // line * line
        nbytes = count * (ranks if kind.pieces else 1) * width
        if count and nbytes not in found:
            found[nbytes] = Size(requested, count, nbytes)
    return tuple(found.values())


class Healthy:
    """Bus bandwidth in GB/s of healthy machines, by size; remembered, since probes repeat their shapes."""

    def __init__(self, accelerator: Accelerator | None, layout: Layout) -> None:
        self.accelerator, self._layout = accelerator, layout
        self._known: dict[tuple[object, ...], tuple[float, ...]] = {}

    def busbw(self, run: Situation, sizes: Sequence[Size]) -> tuple[float, ...]:
        """One value a size, for the layer that this group's traffic really takes."""
        work = run.workload
        layer = "fabric" if run.leaves_nvlink else "scale-up"
        rails = self._layout.rails if work.rail is None else min(1, self._layout.rails)
        algorithm = "ring" if work.env.get("NCCL_ALGO", "").lower() == "ring" else "any"
        fold = run.fold if layer == "fabric" else 1
        shape = (work.collective, layer, len(work.nodes), work.ranks_per_node, rails, algorithm, work.backend, fold)
        key = (*shape, *(size.nbytes for size in sizes))
        if key not in self._known:
            self._known[key] = tuple(self._one(work, layer, rails, algorithm, fold, size.nbytes) for size in sizes)
        return self._known[key]

    def _one(  # noqa: PLR0917 - one argument for each part of the shape
        self, work: Workload, layer: str, rails: int, algorithm: str, fold: int, nbytes: int
    ) -> float:
        nodes = len(work.nodes)
        if work.world_size < 2:
            return 0.0
        if work.backend == "gloo":
            return GLOO_PLATEAU * size_factor("scale-up", 1, nbytes)
        figure = healthy_busbw(
            self.accelerator,
            collective=work.collective,
            layer=layer,
            nodes=nodes,
            gpus_per_node=work.ranks_per_node,
            size=nbytes,
            rails=rails,
            gbps=self._layout.gbps,
            algorithm=algorithm,
            nvlink_domain=fold,
        )
        return figure.value if figure else UNKNOWN_PLATEAU[layer] * size_factor(layer, nodes, nbytes)


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: time in µs, bandwidths in GB/s, wrong elements over all ranks; nan and None where nothing is."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """All repeats of one size."""

    size: Size
    out_of_place: tuple[Cell, ...]
    in_place: tuple[Cell, ...]
    """Empty where the collective has no such variant."""


def measure(
    run: Situation, healthy: Sequence[tuple[Size, float]], exposed: Exposure, chance: Chance, noise: float
) -> tuple[Row, ...]:
    """What every repeat measures at every size: healthy value x (1 + noise), times what the faults leave of it."""
    work = run.workload
    draw = chance.of("noise")
    spread = [(draw.gauss(1.0, noise), draw.gauss(1.0, noise)) for _ in exposed.factors]
    speeds = [
        tuple(factor * max(0.05, one) for one in both) for factor, both in zip(exposed.factors, spread, strict=True)
    ]
    factor = bus_factor(work.collective, work.world_size)
    in_place = KINDS[work.collective].in_place
    broken = any(fault.step is None for fault in exposed.effect("nan"))
    rows = []
    for size, value in healthy:
        wrong = None if broken else _wrong(size, exposed.effect("corrupt"), work.world_size, chance)
        cells = [
            tuple(_cell(size.nbytes, value * speed, factor, wrong) for speed in column)
            for column in zip(*speeds, strict=True)
        ]
        rows.append(Row(size, cells[0], cells[1] if in_place else ()))
    return tuple(rows)


def _cell(nbytes: int, busbw: float, factor: float, wrong: int | None) -> Cell:
    if wrong is None:
        return Cell(float("nan"), float("nan"), float("nan"), None)
    algbw = busbw / factor if factor else ONE_RANK_ALGBW
    return Cell(nbytes / 1e3 / algbw, algbw, busbw if factor else 0.0, wrong)


def _wrong(size: Size, corrupt: Sequence[NodeFault], ranks: int, chance: Chance) -> int:
    """Wrong elements over all ranks: what one node spoils reaches every rank of a collective."""
    hits = [fault for fault in corrupt if fault.size is None or fault.size in {size.requested, size.nbytes}]
    if not hits:
        return 0
    return ranks * min(size.count, chance.of(f"corrupt {size.nbytes}").randint(1, 64))


def seconds_of(work: Workload, sizes: Sequence[Size], healthy: Sequence[float]) -> tuple[float, ...]:
    """Virtual seconds from the first row's start to the end of each row.

    The sweep of *healthy* machines: a fault changes what a run measures and not when it ends, so that a moment written
    in the file (`at: 30s`) strikes the same run whatever other faults there are.
    """
    options = work.options
    cycles, warmup = int(options.get("numCycles", 4)), int(options.get("warmupIterations", 5))
    variants = 2 if KINDS[work.collective].in_place else 1
    iterations = variants * (warmup + cycles * int(options.get("numIterations", 20)))
    factor = bus_factor(work.collective, work.world_size)
    ends = [0.0]
    for size, value in zip(sizes, healthy, strict=True):
        algbw = value / factor if factor and value else ONE_RANK_ALGBW
        ends.append(ends[-1] + iterations * size.nbytes / 1e9 / algbw + cycles * variants * CHECK_S)
    return tuple(after for _, after in pairwise(ends))
