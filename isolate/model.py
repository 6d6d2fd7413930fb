"""The words of isolation: what the planner is told, what it asks for and what it concludes.

Everything is plain frozen data, so that a planner can be driven by a real engine, by a model of faults in a test or by
a recorded session, and so that reports can keep every probe as it was. Nodes are names; what a node is made of is of
no concern here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Layer = Literal["node", "scale-up", "fabric"]
Outcome = Literal["passed", "failed", "unclear", "invalid"]
Traffic = Literal["ring", "all-pairs", "none"]
Standing = Literal["suspect", "intermittent", "cleared", "inconclusive", "untested", "lost"]
Verdict = Literal["isolated", "systemic", "scale", "not-reproduced", "lost", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands."""

    path: tuple[str, ...] = ()
    """Names of its domains, outermost first (`("block-0", "rack-5")`); empty where nobody knows."""
    nvlink: str = ""
    """Its NVLink domain where that spans nodes, else empty."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Where all nodes stand. Nodes that it does not know are nodes of unknown place."""

    places: Mapping[str, Place] = field(default_factory=lambda: MappingProxyType({}))
    levels: tuple[str, ...] = ()
    """Names of the levels of `Place.path`, outermost first (`("block", "rack")`); only used in words."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How a probe differs from the case: None = as the case has it."""

    mnnvl: bool | None = None
    """Multi-node NVLink on or off."""
    rail: int | None = None
    """Only this NIC (0-based)."""
    traffic: Literal["ring", "all-pairs"] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What isolation may cost."""

    min_group: int = 2
    """The smallest group that the workload runs on and that says something about more than one node."""
    max_concurrent: int = 16
    """Lanes: probes that may run at the same time."""
    max_probes: int | None = None
    max_node_seconds: float | None = None
    confirm: int = 2
    """Different partners with which a suspect must fail."""
    repeats: int = 4
    """Repeats inside one run; used for the error rates in the text only."""
    borrow: bool = True
    """Nodes outside the group that the session has proven good may serve as partners."""
    seed: int = 0
    """Decides the mixed pairings; the same seed gives the same probes."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the planner must know of the case that failed."""

    name: str = ""
    layers: frozenset[Layer] = frozenset({"node", "scale-up", "fabric"})
    """Layers that the case can show a fault of at its full scale."""
    traffic: Traffic = "ring"
    mnnvl_switch: bool = False
    """The workload can switch multi-node NVLink off, so that two variants tell NVLink from fabric."""
    single_node: bool = False
    """A run on one node means something: what fails there is the node itself."""
    rails: int = 0
    """NICs per node that can be chosen one by one; 0 or 1 = no question of rails."""
    min_nodes: int = 2
    """The entry's own minimum (the larger of this and `Limits.min_group` counts)."""
    sensitivity: str = ""
    """Key of what a pass proves (entry, size, algorithm): evidence counts only for cases with the same key."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One run that the planner asks for."""

    id: int
    nodes: tuple[str, ...]
    """In topology order; the probe's ranks follow it."""
    variant: Variant = Variant()
    quiet: bool = False
    """Runs while no other probe runs in the leaf of the suspect (alone, where the topology is unknown)."""
    purpose: str = ""
    """`hint`, `split`, `pin`, `confirm`, `alone`, `layer`, `rail`, `repeat`, `cross`, `size`, `mixed`, `quiet`,
    `certify` …"""
    round: int = 1
    """1 + the round of the newest result known when it was made."""
    about: tuple[str, ...] = ()
    """The nodes that the probe asks about; the others are partners."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A node that something points at: it orders the probes and names nobody."""

    node: str
    why: str
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run told."""

    outcome: Outcome
    value: float | None = None
    """The deciding measurement, in the unit of `expected`."""
    expected: float | None = None
    hints: tuple[Hint, ...] = ()
    lost: tuple[str, ...] = ()
    """Nodes that went away while it ran."""
    seconds: float = 0.0
    reason: str = ""
    proven: bool = True
    """False: the transport proof shows that the variant asked for did not take effect."""

    @property
    def ratio(self) -> float | None:
        """`value / expected`, where both are known."""
        return self.value / self.expected if self.value is not None and self.expected else None


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """A probe and its result, in the order in which results came."""

    probe: Probe
    result: Result
    alone: bool = False
    """No other probe ran in the leaf of the nodes it asks about while it ran."""
    told: str = ""
    """What it told, in a few words."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node that fails whoever its partners are."""

    node: str
    layer: Layer
    rail: int | None = None
    confidence: str = "confirmed"
    """`confirmed` or `probable` (with fewer partners than asked for, or never alone in its leaf)."""
    evidence: tuple[str, ...] = ()
    kind: Literal["suspect", "intermittent"] = "suspect"
    alternatives: tuple[str, ...] = ()
    """What could not be told apart from it: other layers or nodes, in words."""
    rails: tuple[int, ...] = ()
    """All rails that failed, where several but not all did."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two nodes, or two domains, that work apart and fail together."""

    between: tuple[str, str]
    """Sorted bare names."""
    level: str
    """`node`, or the level of the domains."""
    confidence: str = "confirmed"
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """A leaf, rack or block whose every crossing to others fails while its nodes work among themselves."""

    name: str
    level: str
    confidence: str = "confirmed"
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScaleFinding:
    """No part fails, the whole does: the smallest size that failed and the largest that passed."""

    smallest_failing: int
    largest_passing: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Certified:
    """The group without the suspects passed together."""

    nodes: tuple[str, ...]
    value: float | None = None


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What isolation says of one node."""

    standing: Standing
    evidence: tuple[str, ...] = ()
    passes: int = 0
    fails: int = 0


@dataclass(frozen=True, slots=True)
class Findings:
    """What isolation concluded, with everything it rests on."""

    verdict: Verdict
    rounds: int
    probes: tuple[ProbeRecord, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    links: tuple[Link, ...] = ()
    domains: tuple[Domain, ...] = ()
    scale: ScaleFinding | None = None
    systemic: str = ""
    transient: str = ""
    certified_rest: Certified | None = None
    nodes: Mapping[str, NodeResult] = field(default_factory=lambda: MappingProxyType({}))
    sets: tuple[frozenset[str], ...] = ()
    """Groups of which at least one member (or the way between them) is at fault and no more is known."""
    lost: tuple[str, ...] = ()
    limit: str = ""
    """The limit that ended the search early, in words."""
    story: tuple[str, ...] = ()
    """What was run, in which order, what each told, what follows, what could not be told apart."""

    def headline(self) -> str:
        """The finding in one line: `suspects: n5, n12`, `link: n1–n50`, `inconclusive: …`."""
        parts: list[str] = []
        if self.suspects or (self.sets and not self.limit):
            names = [suspect.node for suspect in self.suspects]
            names = [listed(tuple(names), 32)] if names else []
            names += [f"one of {listed(sorted_names(group))}" for group in self.sets]
            parts.append("suspects: " + ", ".join(names))
        if self.links:
            parts.append("link: " + ", ".join("–".join(link.between) for link in self.links))
        if self.domains:
            parts.append("domain: " + ", ".join(domain.name for domain in self.domains))
        if self.scale is not None:
            parts.append(f"size: fails from {self.scale.smallest_failing} nodes, no smaller part fails")
        if self.systemic:
            parts.append(f"systemic: {self.systemic}")
        if self.transient:
            parts.append(f"not reproduced: {self.transient}")
        if self.limit:
            rest = f"; one of {listed(sorted_names(self.sets[0]))}" if self.sets else ""
            parts.append(f"inconclusive: {self.limit}{rest}")
        if self.lost:
            parts.append(f"lost: {listed(self.lost)}")
        if not parts:
            parts.append("inconclusive: the failure could not be explained")
        return "; ".join(parts)


def sorted_names(nodes: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Names in the order people write them: shorter numbers first."""
    return tuple(sorted(nodes, key=lambda name: (len(name), name)))


def listed(names: tuple[str, ...], most: int = 8) -> str:
    """Names for a sentence; of a long list the first ones and the count."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 2])}, … ({len(names)} nodes)"
