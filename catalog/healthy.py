"""What a healthy machine reaches: the physical bound of a collective, and the figure derived from published ones.

Both are pure functions of the collective, the shape of the group and the rates of the links. The judge takes its
expectation from here where no closer profile is known, and the simulated cluster takes the bandwidth of its healthy
machines from here, so the two cannot drift apart. Every figure says its kind, source and formula.

Bounds (n ranks on k nodes of g GPUs, B = rails x line rate / 8, the GB/s of one node's NICs). Bus bandwidth is
nccl-tests' (doc/PERFORMANCE.md): `S/t x 2(n-1)/n` for all-reduce, `S/t x (n-1)/n` for all-gather, reduce-scatter and
all-to-all, `S/t` for broadcast and sendrecv.

* ring: every ring crosses each node once in and once out, so bus bandwidth <= B.
* all-to-all: a node sends g x S x (n-g)/n to others, so bus bandwidth <= B/g x (n-1)/(n-g).
* sendrecv in a ring: one GPU a node crosses, through the NICs that are its own: max(B/g, one NIC).
* hierarchical (`any`): reduced inside the node first, a node sends 2(k-1)/k x S, so all-reduce <= B x (n-1)/(g(k-1));
  twice the line rate at two nodes, which is why two nodes never characterise a fabric. The same ratio holds for
  all-gather and reduce-scatter.
* in-network reduction (`sharp`): a node sends S once, so all-reduce <= B x 2(n-1)/n.
* one node through its NICs (loopback): every hop leaves by the GPU's own NICs, so bus bandwidth <= B/g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from catalog.accelerator import Accelerator, FigureRow
from catalog.units import format_size

MIB = 2**20
HALF_SCALE_UP = 32 * MIB
"""Bytes at which a single node reaches half of its plateau (8xA100: 229.9 at 1G, 231.5 at 2G, SuperBench NDv4)."""
HALF_FABRIC = 128 * MIB
"""The same for up to four nodes over NICs; cautious: 4xB200 fits 60M (362.0 at 1G, 380.4 at 8G, ml-engineering)."""

# Share of the bound where nobody published a figure: cautious ends of what figures.md has for other products.
_FABRIC_SHARE = {
    "all_reduce": 0.92,  # Together's acceptance, "92 % of theoretical"
    "all_gather": 0.85,  # 338.6 of 400, 2 nodes H100, NVCRE validation results
    "reduce_scatter": 0.85,
    "alltoall": 0.80,  # 79.1 of 93.8 (H100) and 85.6 of 110.7 (GB300), NVCRE validation results
    "broadcast": 0.78,  # 312 of 400, CVS sample floor
    "sendrecv": 0.92,  # 46-48 of 50 per NDR NIC, nccl-tests issue 290
}
_LOOPBACK_SHARE = 0.85  # Azure's IB-loopback floor is 18 of 25 GB/s (A100), SuperBench measured 23.7
_SCALE_UP_SHARE = {
    "all_reduce": 0.80,  # 367 of 450 without NVLS (H200)
    "all_gather": 0.80,  # 361.4 of 450 (H200)
    "reduce_scatter": 0.80,
    "alltoall": 0.70,
    "broadcast": 0.70,
    "sendrecv": 0.70,
}
_PCIE_SHARE = 0.5  # GPUs behind one host bridge share its way to memory
_SHARES_SOURCE = "clusterproof: share of the physical bound seen on other products"


@dataclass(frozen=True, slots=True)
class Figure:
    """A healthy figure: bus bandwidth in GB/s and where it comes from."""

    value: float
    kind: str
    source: str
    conditions: str
    formula: str = ""


def fabric_bound(
    *, collective: str, nodes: int, gpus_per_node: int, rails: int, gbps: float, algorithm: str = "ring"
) -> float:
    """Largest bus bandwidth in GB/s that the NICs allow (formulas above); 0 where rails or line rate are unknown."""
    node_rate = rails * gbps / 8
    per_gpu = node_rate / gpus_per_node
    if nodes == 1:
        return per_gpu
    bound = _BOUNDS.get(collective, _ring_bound)
    return bound(_Shape(nodes, gpus_per_node, node_rate, max(per_gpu, gbps / 8), algorithm))


@dataclass(frozen=True, slots=True)
class _Shape:
    nodes: int
    gpus: int
    node_rate: float
    lane: float
    algorithm: str

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    @property
    def hierarchical(self) -> float:
        return self.node_rate * (self.ranks - 1) / (self.gpus * (self.nodes - 1))


def _ring_bound(shape: _Shape) -> float:
    return shape.node_rate


def _reduce_bound(shape: _Shape) -> float:
    in_network = shape.node_rate * 2 * (shape.ranks - 1) / shape.ranks
    by_algorithm = {
        "ring": shape.node_rate,
        "tree": shape.hierarchical,
        "nvls": shape.hierarchical,
        "sharp": in_network,
        "any": max(shape.hierarchical, in_network),
    }
    return by_algorithm.get(shape.algorithm, shape.node_rate)


def _gather_bound(shape: _Shape) -> float:
    return shape.node_rate if shape.algorithm == "ring" else shape.hierarchical


def _alltoall_bound(shape: _Shape) -> float:
    return shape.node_rate / shape.gpus * (shape.ranks - 1) / (shape.ranks - shape.gpus)


def _sendrecv_bound(shape: _Shape) -> float:
    return shape.lane


_BOUNDS: dict[str, Callable[[_Shape], float]] = {
    "all_reduce": _reduce_bound,
    "all_gather": _gather_bound,
    "reduce_scatter": _gather_bound,
    "alltoall": _alltoall_bound,
    "sendrecv": _sendrecv_bound,
}


def scale_up_bound(acc: Accelerator, *, collective: str, ranks: int, algorithm: str = "any") -> float:
    """Largest bus bandwidth in GB/s inside one NVLink domain (or, without NVLink, over the host links).

    With NVLS the switch reduces, each GPU sends S once, so an all-reduce reaches 2(n-1)/n of the GPU's rate; every
    other way is bound by the rate itself.
    """
    rate = acc.scale_up_gbytes_per_s
    in_switch = collective == "all_reduce" and algorithm != "ring" and acc.nvlink_gbps > 0
    return rate * (2 * (ranks - 1) / ranks if in_switch and ranks > 2 else 1.0)


def half_size(layer: str, nodes: int) -> float:
    """Bytes at which half of the plateau is reached: latency grows with the square root of the nodes beyond four.

    The root fits 8 nodes (386.6 at 8G) and 360 nodes (381.5 at 8G, 405.7 at 16G) of CoreWeave's published runs.
    """
    if layer == "scale-up":
        return HALF_SCALE_UP * math.sqrt(nodes)
    return HALF_FABRIC * math.sqrt(max(nodes, 4) / 4)


def size_factor(layer: str, nodes: int, size: int) -> float:
    """Share of the plateau that a message of `size` bytes reaches: size / (size + half)."""
    return size / (size + half_size(layer, nodes))


def healthy_busbw(
    acc: Accelerator | None,
    *,
    collective: str,
    layer: str,
    nodes: int,
    gpus_per_node: int,
    size: int,
    rails: int = 0,
    gbps: float = 0.0,
    algorithm: str = "any",
) -> Figure | None:
    """Bus bandwidth in GB/s that healthy machines reach, or None where it cannot be said.

    None: one rank only (bus bandwidth is 0 by definition), the fabric's rails or line rate are not known, or the
    product is not (`acc` None), whose NICs alone still bound a `fabric` figure.
    """
    if nodes * gpus_per_node < 2:
        return None
    shape = _Case(acc, collective, layer, nodes, gpus_per_node, size, rails, gbps, algorithm)
    rows = [row for row in (acc.figures if acc else ()) if shape.speaks_of(row)]
    row = min(rows, key=shape.distance, default=None)
    if row is not None:
        return _from_row(shape, row)
    return _from_bound(shape)


@dataclass(frozen=True, slots=True)
class _Case:
    acc: Accelerator | None
    collective: str
    layer: str
    nodes: int
    gpus: int
    size: int
    rails: int
    gbps: float
    algorithm: str

    def speaks_of(self, row: FigureRow) -> bool:
        """Whether the row is about this collective on this layer, by an algorithm that may be expected here.

        A loopback (one node over its NICs) and a group of nodes tell nothing about one another, and neither do a
        figure over unknown NICs.
        """
        ring = self.algorithm == "ring" and self.collective == "all_reduce" and self.layer == "scale-up"
        return (
            row.metric == "busBandwidthGBps"
            and row.collective == self.collective
            and row.layer == self.layer
            and (row.algorithm == "ring") == ring
            and (self.layer == "scale-up" or (self.bound > 0 and (row.nodes == 1) == (self.nodes == 1)))
        )

    def distance(self, row: FigureRow) -> tuple[float, float]:
        """Rows of the nearest shape first: nodes, then ranks, each by ratio."""
        ranks = self.nodes * self.gpus / (row.nodes * row.gpus_per_node)
        return abs(math.log(self.nodes / row.nodes)), abs(math.log(ranks))

    @property
    def bound(self) -> float:
        if self.layer == "scale-up":
            return self._scale_up(self.nodes * self.gpus, self.algorithm)
        return fabric_bound(
            collective=self.collective,
            nodes=self.nodes,
            gpus_per_node=self.gpus,
            rails=self.rails,
            gbps=self.gbps,
        )

    def bound_of(self, row: FigureRow) -> float:
        """The same bound for the row's own shape, so that a figure moves to another shape by the ratio of bounds."""
        if self.layer == "scale-up":
            return self._scale_up(row.nodes * row.gpus_per_node, row.algorithm)
        return fabric_bound(
            collective=self.collective,
            nodes=row.nodes,
            gpus_per_node=row.gpus_per_node,
            rails=row.rails,
            gbps=row.gbps,
        )

    def _scale_up(self, ranks: int, algorithm: str) -> float:
        if self.acc is None:
            return 0.0
        return scale_up_bound(self.acc, collective=self.collective, ranks=ranks, algorithm=algorithm)

    @property
    def plain_bound(self) -> float:
        """The bound without in-switch reduction: what the shares of products with nothing published refer to."""
        if self.layer == "scale-up" and self.acc is not None:
            return min(self.bound, self.acc.scale_up_gbytes_per_s)
        return self.bound

    @property
    def share(self) -> float:
        """Share of the bound that healthy machines reach (tables above)."""
        if self.layer == "fabric":
            return _LOOPBACK_SHARE if self.nodes == 1 else _FABRIC_SHARE.get(self.collective, 0.8)
        has_nvlink = self.acc is not None and self.acc.nvlink_gbps > 0
        return _SCALE_UP_SHARE.get(self.collective, 0.7) if has_nvlink else _PCIE_SHARE

    def same_shape(self, row: FigureRow) -> bool:
        """Whether the figure was taken on exactly this shape."""
        here = (self.nodes, self.gpus, self.rails, self.gbps)
        there = (row.nodes, row.gpus_per_node, row.rails, row.gbps)
        return here[:2] == there[:2] and (self.layer == "scale-up" or here == there)


def _from_row(case: _Case, row: FigureRow) -> Figure:
    size = row.size or case.size
    ratio = case.bound / case.bound_of(row)
    latency = size_factor(case.layer, case.nodes, case.size) / size_factor(case.layer, row.nodes, size)
    if case.same_shape(row) and size == case.size:
        return Figure(row.value, row.kind, row.source, row.conditions, row.formula)
    kind = "provisional" if row.kind == "provisional" else "derived"
    formula = (
        f"{row.value:g} ({row.nodes}x{row.gpus_per_node} at {format_size(size)}) x {ratio:.3g} (ratio of bounds) "
        f"x {latency:.3g} (size/(size+half))"
    )
    return Figure(row.value * ratio * latency, kind, row.source, row.conditions, formula)


def _from_bound(case: _Case) -> Figure | None:
    bound = case.plain_bound
    if bound <= 0:
        return None
    latency = size_factor(case.layer, case.nodes, case.size)
    formula = f"{case.share:g} x {bound:.4g} (physical bound) x {latency:.3g} (size/(size+half))"
    conditions = f"{case.acc.name if case.acc else 'unknown product'}, {case.layer}, nobody published this figure"
    return Figure(case.share * bound * latency, "provisional", _SHARES_SOURCE, conditions, formula)
