"""Which faults one run meets, and what they leave of its speed: the rules of simulation.md, one function a kind.

Two questions are kept apart. `Situation` says what the run exercises (edges, NVLink domains, rails); each rule says
whether a fault lies in its way. A rule sees nothing of the search that chose the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cluster.model import Workload
from cluster.simulated.chance import Chance
from cluster.simulated.layout import Layout
from cluster.simulated.spec import (
    BoundaryFault,
    Fault,
    GpuFault,
    IntermittentFault,
    LinkFault,
    NicFault,
    NodeFault,
    NvlinkFault,
    ScaleFault,
    SystemicFault,
    TransportFault,
)

SOCKET_SHARE = 0.02
"""Of an RDMA fabric's bandwidth over one TCP connection pool: 8 GB/s of 400."""


@dataclass(frozen=True)
class Situation:
    """What one workload exercises of the fabric."""

    workload: Workload
    layout: Layout

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Node → its place in rank order."""
        return {name: index for index, name in enumerate(self.workload.nodes)}

    @cached_property
    def mnnvl(self) -> bool:
        """Multi-node NVLink is on: as asked for, else wherever NVLink domains are larger than a node."""
        return self.workload.mnnvl is not False and self.layout.spans_nodes

    @cached_property
    def communicates(self) -> bool:
        """Ranks exchange data at all."""
        return bool(self.workload.collective) or self.workload.traffic != "none"

    @cached_property
    def through_nics(self) -> bool:
        """NVLink and shared memory are off, so that each GPU is an NVLink domain of its own (nccl-loopback)."""
        env = self.workload.env
        return env.get("NCCL_P2P_DISABLE") == "1" and env.get("NCCL_SHM_DISABLE") == "1"

    @cached_property
    def domains(self) -> Mapping[int, int]:
        """NVLink domain → members of the group in it, with multi-node NVLink on."""
        count: dict[int, int] = {}
        for name in self.workload.nodes:
            number = self.layout.nvlink[name]
            count[number] = count.get(number, 0) + 1
        return count

    @cached_property
    def fold(self) -> int:
        """Nodes whose NICs carry the traffic of one NVLink domain together; the domain with fewest members counts."""
        return min(self.domains.values()) if self.mnnvl and not self.through_nics else 1

    @cached_property
    def leaves_nvlink(self) -> bool:
        """Traffic crosses from one NVLink domain to another, over the NICs."""
        if not self.communicates:
            return False
        return self.through_nics or (len(self.domains) > 1 if self.mnnvl else len(self.workload.nodes) > 1)

    def uses_edge(self, left: str, right: str) -> bool:
        """Traffic goes between these two nodes."""
        if left not in self.position or right not in self.position:
            return False
        if self.workload.traffic == "all-pairs":
            return True
        apart = abs(self.position[left] - self.position[right])
        return self.workload.traffic == "ring" and apart in {1, len(self.workload.nodes) - 1}

    def crosses(self, left: str, right: str) -> bool:
        """Traffic goes between a node of one domain and a node of the other."""
        one, other = self.layout.members[left], self.layout.members[right]
        nodes = self.workload.nodes
        if self.workload.traffic == "all-pairs":
            return any(name in one for name in nodes) and any(name in other for name in nodes)
        if self.workload.traffic != "ring":
            return False
        following = (*nodes[1:], nodes[0])
        return any(
            (a in one and b in other) or (a in other and b in one) for a, b in zip(nodes, following, strict=True)
        )


def _node(fault: NodeFault | IntermittentFault | GpuFault, run: Situation) -> bool:
    return fault.node in run.position


def _nic(fault: NicFault, run: Situation) -> bool:
    rail = run.workload.rail
    on_rail = fault.rail is None or rail is None or rail == fault.rail
    return fault.node in run.position and on_rail and run.leaves_nvlink


def _transport(fault: TransportFault, run: Situation) -> bool:
    return fault.node in run.position and run.leaves_nvlink


def _nvlink(fault: NvlinkFault, run: Situation) -> bool:
    if fault.node not in run.position or run.through_nics or not run.communicates:
        return False
    if run.layout.nvlink_size[fault.node] == 1:
        return True
    return run.mnnvl and run.domains[run.layout.nvlink[fault.node]] > 1


def _link(fault: LinkFault, run: Situation) -> bool:
    return run.uses_edge(fault.between[0], fault.between[1])


def _boundary(fault: BoundaryFault, run: Situation) -> bool:
    return run.crosses(fault.between[0], fault.between[1])


def _scale(fault: ScaleFault, run: Situation) -> bool:
    return len(run.workload.nodes) >= fault.nodes


def _always(_fault: SystemicFault, _run: Situation) -> bool:
    return True


_SHOWS: Mapping[type[Any], Callable[[Any, Situation], bool]] = {
    NodeFault: _node,
    NicFault: _nic,
    NvlinkFault: _nvlink,
    IntermittentFault: _node,
    LinkFault: _link,
    BoundaryFault: _boundary,
    ScaleFault: _scale,
    SystemicFault: _always,
    TransportFault: _transport,
    GpuFault: _node,
}
"""Kinds that act on a running program; lost, health, unschedulable and transient act on the run as a whole."""


@dataclass(frozen=True)
class Exposure:
    """The faults that one run meets."""

    factors: tuple[float, ...]
    """What is left of the healthy speed, for each repeat."""
    by_effect: Mapping[str, tuple[NodeFault, ...]]
    """Node faults by effect: crash, hang, corrupt, nan."""
    sockets: tuple[str, ...]
    """Nodes that talk TCP."""
    gpus: tuple[GpuFault, ...]

    def effect(self, name: str) -> tuple[NodeFault, ...]:
        """The node faults with that effect."""
        return self.by_effect.get(name, ())


def exposure(run: Situation, faults: Iterable[Fault], chance: Chance, repeats: int) -> Exposure:
    """What `faults` do to `run` in each of its repeats; faults that overlap: the smallest factor."""
    shown = [fault for fault in faults if (rule := _SHOWS.get(type(fault))) is not None and rule(fault, run)]
    factors = [min((factor for fault in shown for factor in _steady(fault)), default=1.0)] * repeats
    for fault in shown:
        if isinstance(fault, IntermittentFault):
            draw = chance.of(f"intermittent {fault.node} {fault.factor} {fault.probability}")
            factors = [min(factor, fault.factor) if draw.random() < fault.probability else factor for factor in factors]
    effects: dict[str, tuple[NodeFault, ...]] = {}
    for fault in shown:
        if isinstance(fault, NodeFault):
            effects[fault.effect] = (*effects.get(fault.effect, ()), fault)
    return Exposure(
        factors=tuple(factors),
        by_effect=effects,
        sockets=tuple(fault.node for fault in shown if isinstance(fault, TransportFault)),
        gpus=tuple(fault for fault in shown if isinstance(fault, GpuFault)),
    )


def _steady(fault: Fault) -> tuple[float, ...]:
    """The factor of a fault that holds for the whole run, where it has one."""
    if isinstance(fault, IntermittentFault):
        return ()
    if isinstance(fault, TransportFault):
        return (SOCKET_SHARE,)
    factor = getattr(fault, "factor", None)
    return () if factor is None else (float(factor),)
