"""What healthy machines reach: figures of other shapes, sizes and link rates, derived from published ones.

Pure functions of the collective, the group's shape and the rates of its links. The judge takes its expectation from
here where no closer profile is known, and the simulated cluster takes the bandwidth of its healthy machines from here,
so the two cannot drift apart. A figure moves to another shape by the ratio of the physical bounds (bounds.py) and to
another size or number of nodes by a smooth model of latency, `size / (size + half)`; what nobody published is a share
of the bound. Every figure says its kind, source and formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.accelerator import Accelerator, FigureRow
from catalog.bounds import fabric_bound, scale_up_bound
from catalog.units import format_size

MIB = 2**20
HALF_SCALE_UP = 32 * MIB
"""Bytes at which a single node reaches half of its plateau (8xA100: 229.9 at 1G, 231.5 at 2G, SuperBench NDv4)."""
HALF_FABRIC = 128 * MIB
"""The same for up to four nodes over NICs; cautious: 4xB200 fits 60M (362.0 at 1G, 380.4 at 8G, ml-engineering)."""

# Share of the bound where nobody published a figure: cautious ends of what was published for other products.
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


@dataclass(frozen=True, slots=True)
class Group:
    """The shape a figure is asked for."""

    collective: str
    layer: str
    nodes: int
    gpus_per_node: int
    size: int
    rails: int = 0
    gbps: float = 0.0
    algorithm: str = "any"
    nvlink_domain: int = 1
    """Nodes in one NVLink domain with multi-node NVLink on, where the group spans several; else 1."""

    @property
    def ranks(self) -> int:
        """Ranks in total."""
        return self.nodes * self.gpus_per_node

    def bound(self, acc: Accelerator | None) -> float:
        """The physical bound of a ring over its NICs, or of the NVLink domain, GB/s; 0 = not known."""
        return _bound(acc, self.layer, self)

    def plain_bound(self, acc: Accelerator | None) -> float:
        """The bound without in-switch reduction: what shares refer to."""
        bound = self.bound(acc)
        return min(bound, acc.scale_up_gbytes_per_s) if acc and self.layer == "scale-up" else bound

    def share(self, acc: Accelerator | None) -> float:
        """Share of the bound that healthy machines of other products reach."""
        if self.layer == "fabric":
            return _LOOPBACK_SHARE if self.nodes == 1 else _FABRIC_SHARE.get(self.collective, 0.78)
        return _SCALE_UP_SHARE.get(self.collective, 0.7) if acc and acc.nvlink_gbps else _PCIE_SHARE

    def is_of(self, row: FigureRow) -> bool:
        """Whether a row may speak of this group: same collective and layer, an algorithm that may be expected.

        A loopback (one node over its NICs) and a group of nodes tell nothing about one another; a value above what a
        ring can reach is another algorithm's and tells nothing about other shapes.
        """
        return (
            row.metric == "busBandwidthGBps"
            and not row.advisory
            and row.collective == self.collective
            and row.layer == self.layer
            and self._expects(row.algorithm)
            and (self.layer == "scale-up" or (row.nodes == 1) == (self.nodes == 1))
            and (self.layer == "scale-up" or row.nvlink_domain == self.nvlink_domain)
        )

    def _expects(self, algorithm: str) -> bool:
        """A ring is held against rings, in-network reduction against its like; `any` is whatever NCCL chooses."""
        if self.collective != "all_reduce":
            return True
        if self.layer == "scale-up":
            return (algorithm == "ring") == (self.algorithm == "ring")
        return (algorithm == "sharp") == (self.algorithm == "sharp")

    def distance(self, row: FigureRow) -> tuple[float, float, float]:
        """Rows of the nearest shape first: nodes, then ranks, then size, each by ratio."""
        ranks = self.ranks / (row.nodes * row.gpus_per_node)
        size = self.size / (row.size or self.size)
        return abs(math.log(self.nodes / row.nodes)), abs(math.log(ranks)), abs(math.log(size))

    def same_shape(self, row: FigureRow) -> bool:
        """Whether the row was taken on exactly this shape and size."""
        here = (self.nodes, self.gpus_per_node, self.size, self.rails, self.gbps)
        there = (row.nodes, row.gpus_per_node, row.size, row.rails, row.gbps)
        return here[:3] == there[:3] and (self.layer == "scale-up" or here == there)


def _bound(acc: Accelerator | None, layer: str, shape: Group | FigureRow) -> float:
    collective = shape.collective or ""
    ranks = shape.nodes * shape.gpus_per_node
    inside = scale_up_bound(acc, collective=collective, ranks=ranks, algorithm=shape.algorithm) if acc else 0.0
    if layer == "scale-up":
        return inside
    algorithm = "sharp" if shape.algorithm == "sharp" else "ring"
    bound = fabric_bound(
        collective=collective,
        nodes=shape.nodes,
        gpus_per_node=shape.gpus_per_node,
        rails=shape.rails,
        gbps=shape.gbps,
        algorithm=algorithm,
        nvlink_domain=shape.nvlink_domain,
    )
    # Over several nodes of one NVLink domain the NICs of a whole rack add up to more than NVLink carries.
    return min(bound, inside) if shape.nvlink_domain > 1 and inside else bound


def derive(acc: Accelerator | None, rows: Iterable[FigureRow], group: Group) -> Figure | None:
    """The figure for `group` from the row of the nearest shape; None where no row speaks of it.

    The row itself where shape and size are the same, else by the ratio of bounds and the model of latency.
    """
    speaking = [row for row in rows if group.is_of(row) and _bound(acc, group.layer, row) > 0]
    bound = group.bound(acc)
    row = min(speaking, key=group.distance, default=None)
    if row is None or bound <= 0:
        return None
    if group.same_shape(row):
        return Figure(row.value, row.kind, row.source, row.conditions, row.formula)
    size = row.size or group.size
    ratio = bound / _bound(acc, group.layer, row)
    latency = size_factor(group.layer, group.nodes, group.size) / size_factor(group.layer, row.nodes, size)
    formula = (
        f"{row.value:g} ({row.nodes}x{row.gpus_per_node} at {format_size(size)}) x {ratio:.3g} (ratio of bounds) "
        f"x {latency:.3g} (size/(size+half))"
    )
    kind = "provisional" if row.kind == "provisional" else "derived"
    return Figure(row.value * ratio * latency, kind, row.source, row.conditions, formula)


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
    nvlink_domain: int = 1,
) -> Figure | None:
    """Bus bandwidth in GB/s that healthy machines reach, or None where it cannot be said.

    None: one rank only (bus bandwidth is 0 by definition), the fabric's rails or line rate are not known, or the
    product is not (`acc` None), whose NICs alone still bound a `fabric` figure.
    """
    group = Group(collective, layer, nodes, gpus_per_node, size, rails, gbps, algorithm, nvlink_domain)
    if group.ranks < 2:
        return None
    figure = derive(acc, acc.figures if acc else (), group)
    if figure is None and (nvlink_domain > 1 or algorithm == "sharp"):
        # Nothing is known of several domains or of in-network reduction: a plain ring is the least that is reached.
        plain = Group(collective, layer, nodes, gpus_per_node, size, rails, gbps)
        return derive(acc, acc.figures if acc else (), plain) or _from_bound(acc, plain)
    return figure or _from_bound(acc, group)


def _from_bound(acc: Accelerator | None, group: Group) -> Figure | None:
    bound = group.plain_bound(acc)
    if bound <= 0:
        return None
    share, latency = group.share(acc), size_factor(group.layer, group.nodes, group.size)
    formula = f"{share:g} x {bound:.4g} (physical bound) x {latency:.3g} (size/(size+half))"
    conditions = f"{acc.name if acc else 'unknown product'}, {group.layer}, nobody published this figure"
    return Figure(share * bound * latency, "provisional", _SHARES_SOURCE, conditions, formula)
