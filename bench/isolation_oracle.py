"""A model of faults for the planner's own tests and benchmark, after the words of the simulated cluster.

It answers a probe at once, without logs or parsers: which faults show on these nodes in this variant, drawn for each
repeat of a run. The real simulated cluster (`cluster/simulated`) speaks log text; this one is fast enough for thousands
of isolations on 4096 nodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from isolate import Case, Hint, Place, Probe, Result, Topology, Variant

FLOOR = 0.8
GREY = 0.02
EXPECTED = 45.0


@dataclass(frozen=True)
class Fault:
    """One fault; `kind` as in a simulation file."""

    kind: Literal[
        "node", "nic", "nvlink", "intermittent", "link", "boundary", "scale", "systemic", "transient", "unschedulable"
    ]
    node: str = ""
    factor: float = 0.5
    rail: int | None = None
    probability: float = 0.5
    between: tuple[str, str] = ("", "")
    nodes: int = 0
    times: int = 1
    effect: Literal["slow", "crash", "hang"] = "slow"


@dataclass
class World:
    """Nodes, where they stand, and what is wrong with them."""

    names: tuple[str, ...]
    topology: Topology
    faults: tuple[Fault, ...] = ()
    traffic: Literal["ring", "all-pairs"] = "ring"
    noise: float = 0.01
    repeats: int = 4
    seed: int = 0
    switch: bool = False
    single: bool = True
    rails: int = 0
    vanishing: str = ""
    """Node that is lost in the first run with it from run number `vanishes_at` on."""
    vanishes_at: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.runs = 0
        self.rank = {name: index for index, name in enumerate(self.names)}
        self.members: dict[str, set[str]] = {}
        self.place: dict[str, set[str]] = {}
        for name in self.names:
            self.place[name] = set(self.topology.places[name].path)
            for domain in self.topology.places[name].path:
                self.members.setdefault(domain, set()).add(name)
        self.left = {id(fault): fault.times for fault in self.faults if fault.kind == "transient"}

    @property
    def spanning(self) -> bool:
        """Whether NVLink spans nodes."""
        return any(place.nvlink for place in self.topology.places.values())

    def case(self) -> Case:
        """The case as the planner knows it."""
        return Case(
            name="nccl-all-reduce",
            traffic=self.traffic,
            mnnvl_switch=self.switch and self.spanning,
            single_node=self.single,
            rails=self.rails,
            sensitivity="16G",
        )

    def first(self, group: Sequence[str]) -> Result:
        """The case's own run."""
        return self.run(Probe(0, tuple(sorted(group, key=self.rank.__getitem__)), round=0))

    def run(self, probe: Probe) -> Result:
        """Run a probe."""
        self.runs += 1
        nodes = probe.nodes
        inside = set(nodes)
        if self.vanishing in inside and self.runs >= self.vanishes_at:
            return Result("failed", lost=(self.vanishing,), reason="Lost", seconds=60.0)
        for fault in self.faults:
            if fault.kind == "unschedulable" and fault.node in inside:
                return Result("invalid", reason="Unschedulable")
        shown = [fault for fault in self.faults if self._shows(fault, nodes, inside, probe.variant)]
        hard = [fault for fault in shown if fault.effect != "slow"]
        if hard:
            return Result("failed", None, EXPECTED, seconds=120.0, reason=hard[0].effect, hints=_hints(hard[0]))
        ratio = min(self._repeat(shown) for _ in range(self.repeats))
        outcome: Literal["passed", "failed", "unclear"] = "passed" if ratio >= FLOOR else "failed"
        if abs(ratio / FLOOR - 1) <= GREY:
            outcome = "unclear"
        return Result(outcome, ratio * EXPECTED, EXPECTED, seconds=60.0)

    def _repeat(self, shown: Sequence[Fault]) -> float:
        factor = 1.0
        for fault in shown:
            if fault.kind != "intermittent" or self.random.random() < fault.probability:
                factor = min(factor, fault.factor)
        return factor * (1 + self.random.gauss(0, self.noise)) if self.noise else factor

    def _shows(self, fault: Fault, nodes: Sequence[str], inside: set[str], variant: Variant) -> bool:
        if fault.node and fault.node not in inside:
            return False
        return SHOWS[fault.kind](self, fault, nodes, variant)

    def nic(self, fault: Fault, nodes: Sequence[str], variant: Variant) -> bool:
        return (variant.rail is None or fault.rail in (None, variant.rail)) and self._spans(nodes, variant)

    def link(self, fault: Fault, nodes: Sequence[str], _: Variant) -> bool:
        return set(fault.between) <= set(nodes) and self._edge(fault.between, nodes)

    def transient(self, fault: Fault, _nodes: Sequence[str], _variant: Variant) -> bool:
        self.left[id(fault)] -= 1
        return self.left[id(fault)] >= 0

    def _domain(self, node: str) -> str:
        return self.topology.places[node].nvlink or node

    def _spans(self, nodes: Sequence[str], variant: Variant) -> bool:
        if variant.mnnvl is False:
            return len(nodes) > 1
        return len({self._domain(node) for node in nodes}) > 1

    def nvlink(self, fault: Fault, nodes: Sequence[str], variant: Variant) -> bool:
        node, domain = fault.node, self._domain(fault.node)
        if not any(other != node and self._domain(other) == domain for other in self.names):
            return True
        if variant.mnnvl is False:
            return False
        return any(other != node and self._domain(other) == domain for other in nodes)

    def _edge(self, ends: tuple[str, str], nodes: Sequence[str]) -> bool:
        if self.traffic == "all-pairs":
            return True
        apart = abs(nodes.index(ends[0]) - nodes.index(ends[1]))
        return apart in (1, len(nodes) - 1)

    def boundary(self, fault: Fault, nodes: Sequence[str], _: Variant) -> bool:
        one, other = (self.members.get(domain, set()) for domain in fault.between)
        if self.traffic == "all-pairs":
            return not one.isdisjoint(nodes) and not other.isdisjoint(nodes)
        return any(
            (a in one and b in other) or (a in other and b in one)
            for a, b in zip(nodes, (*nodes[1:], nodes[0]), strict=True)
        )


SHOWS: Mapping[str, Callable[[World, Fault, Sequence[str], Variant], bool]] = {
    "node": lambda *_: True,
    "intermittent": lambda *_: True,
    "nic": World.nic,
    "nvlink": World.nvlink,
    "link": World.link,
    "boundary": World.boundary,
    "scale": lambda _, fault, nodes, __: len(nodes) >= fault.nodes,
    "systemic": lambda *_: True,
    "transient": World.transient,
    "unschedulable": lambda *_: False,
}
"""Whether a fault shows on these nodes in this variant, its own node being among them."""


def _hints(fault: Fault) -> tuple[Hint, ...]:
    return (Hint(fault.node, "first to exit"),) if fault.effect == "crash" and fault.node else ()


def cluster(
    nodes: int,
    *,
    rack: int = 8,
    block: int = 0,
    nvlink: int = 1,
) -> tuple[tuple[str, ...], Topology]:
    """Names `node-000 …` and their topology, as a simulation file would make them; `rack=0`: nobody knows."""
    width = max(3, len(str(nodes - 1)))
    names = tuple(f"node-{index:0{width}d}" for index in range(nodes))
    places = {}
    for index, name in enumerate(names):
        path = [f"block-{index // block}"] if block else []
        path += [f"rack-{index // rack}"] if rack else []
        places[name] = Place(tuple(path), f"nvl-{index // nvlink}" if nvlink > 1 else "")
    return names, Topology(places)
