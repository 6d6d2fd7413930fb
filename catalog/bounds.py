"""The physical bound of a collective's bus bandwidth, from the group's shape and the rates of its links.

n ranks on k nodes of g GPUs; B = rails x line rate / 8, the GB/s of one node's NICs. Bus bandwidth is nccl-tests'
(doc/PERFORMANCE.md): `S/t x 2(n-1)/n` for all-reduce, `S/t x (n-1)/n` for all-gather, reduce-scatter and all-to-all,
`S/t` for broadcast and sendrecv.

* ring: every ring crosses each node once in and once out, so bus bandwidth <= B.
* all-to-all: a node sends g x S x (n-g)/n to others, so bus bandwidth <= B/g x (n-1)/(n-g).
* sendrecv in a ring: one GPU a node crosses, through the NICs that are its own: max(B/g, one NIC).
* hierarchical (`tree`, `nvls`): reduced inside the node first, a node sends 2(k-1)/k x S, so all-reduce
  <= B x (n-1)/(g(k-1)); twice the line rate at two nodes, which is why two nodes never characterise a fabric. The same
  ratio holds for all-gather and reduce-scatter.
* in-network reduction (`sharp`): a node sends S once, so all-reduce <= B x 2(n-1)/n.
* one node through its NICs (loopback): every hop leaves by the GPU's own NICs, so bus bandwidth <= B/g.
* NVLink domains of several nodes, multi-node NVLink on: a domain takes the node's place in all of the above.
* inside one domain: the GPU's own rate; with NVLS the switch reduces and each GPU sends S once, so an all-reduce
  reaches 2(n-1)/n of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.accelerator import Accelerator


def fabric_bound(
    *,
    collective: str,
    nodes: int,
    gpus_per_node: int,
    rails: int,
    gbps: float,
    algorithm: str = "ring",
    nvlink_domain: int = 1,
) -> float:
    """Largest bus bandwidth in GB/s that the NICs allow (formulas above); 0 where rails or line rate are unknown.

    `algorithm` `any` is the largest over all algorithms; `nvlink_domain` is the nodes of one domain, 1 with multi-node
    NVLink off.
    """
    fold = max(1, min(nvlink_domain, nodes))
    groups = -(-nodes // fold)
    shape = _Shape(groups, gpus_per_node * fold, rails * fold * gbps / 8, gbps / 8, algorithm)
    if groups == 1:
        return shape.per_gpu
    return _BOUNDS.get(collective, _ring)(shape)


@dataclass(frozen=True, slots=True)
class _Shape:
    nodes: int
    gpus: int
    node_rate: float
    nic: float
    algorithm: str

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    @property
    def per_gpu(self) -> float:
        return self.node_rate / self.gpus

    @property
    def hierarchical(self) -> float:
        return self.node_rate * (self.ranks - 1) / (self.gpus * (self.nodes - 1))


def _ring(shape: _Shape) -> float:
    return shape.node_rate


def _reduce(shape: _Shape) -> float:
    in_network = shape.node_rate * 2 * (shape.ranks - 1) / shape.ranks
    by_algorithm = {
        "tree": shape.hierarchical,
        "nvls": shape.hierarchical,
        "sharp": in_network,
        "any": max(shape.hierarchical, in_network),
    }
    return by_algorithm.get(shape.algorithm, shape.node_rate)


def _gather(shape: _Shape) -> float:
    return shape.node_rate if shape.algorithm == "ring" else shape.hierarchical


def _alltoall(shape: _Shape) -> float:
    return shape.per_gpu * (shape.ranks - 1) / (shape.ranks - shape.gpus)


def _sendrecv(shape: _Shape) -> float:
    return max(shape.per_gpu, shape.nic)


_BOUNDS: dict[str, Callable[[_Shape], float]] = {
    "all_reduce": _reduce,
    "all_gather": _gather,
    "reduce_scatter": _gather,
    "alltoall": _alltoall,
    "sendrecv": _sendrecv,
}


def scale_up_bound(acc: Accelerator, *, collective: str, ranks: int, algorithm: str = "any") -> float:
    """Largest bus bandwidth in GB/s inside one NVLink domain or, without NVLink, over the host links."""
    in_switch = collective == "all_reduce" and algorithm != "ring" and acc.nvlink_gbps > 0 and ranks > 2
    return acc.scale_up_gbytes_per_s * (2 * (ranks - 1) / ranks if in_switch else 1.0)
