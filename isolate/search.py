"""The state that all steps of one isolation share: what is asked, what is known, what is concluded so far.

A lens is a way of looking: the variant that probes use and the layers that they then show. On machines whose NVLink
ends at the node there is one lens; where NVLink spans nodes the fabric is looked at with multi-node NVLink off (all
probes in parallel) and NVLink within its domains (one probe per domain at a time).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from isolate.evidence import Evidence
from isolate.ledger import Ledger
from isolate.model import Case, Domain, Layer, Limits, Link, Result, ScaleFinding, Variant, listed
from isolate.requests import Gate, Kind
from isolate.schedule import Scheduler
from isolate.topology import Map


@dataclass(frozen=True, slots=True)
class Lens:
    """A way of looking at a group."""

    name: Literal["plain", "fabric", "outside", "scale-up"]
    variant: Variant
    layers: frozenset[Layer]
    first: Kind
    """Where the first partner of a pin stands."""

    @property
    def free(self) -> bool:
        """Partners may stand anywhere, so near and far can be told apart."""
        return self.first == "any"


PLAIN = Lens("plain", Variant(), frozenset({"node", "fabric"}), "any")
FABRIC = Lens("fabric", Variant(mnnvl=False), frozenset({"node", "fabric"}), "any")
OUTSIDE = Lens("outside", Variant(), frozenset({"node", "fabric"}), "outside")
SCALE_UP = Lens("scale-up", Variant(), frozenset({"node", "scale-up"}), "domain")


@dataclass(slots=True)
class Accused:
    """A suspect while its case is being built."""

    node: str
    lens: Lens
    kind: Literal["suspect", "intermittent"] = "suspect"
    fails: int = 0
    passes: int = 0
    partners: tuple[str, ...] = ()
    """Partners that it failed with."""
    quiet: bool = False
    """It failed with no other probe in its leaf."""
    probable: bool = False
    layer: Layer | None = None
    rail: int | None = None
    rails: tuple[int, ...] = ()
    evidence: list[str] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Unreproduced:
    """A set that failed and did not fail again."""

    nodes: tuple[str, ...]
    passes: int


class Search:
    """Everything the steps share."""

    def __init__(
        self, group: Sequence[str], mapped: Map, *, limits: Limits, evidence: Evidence, case: Case, first: Result
    ) -> None:
        self.map = mapped
        self.limits = limits
        self.case = case
        self.first = first
        self.evidence = evidence
        self.group = mapped.order(group)
        self.least = max(limits.min_group, case.min_nodes, 2)
        self.ledger = Ledger(mapped, case, evidence)
        self.scheduler = Scheduler(mapped, self.ledger, limits, self.least)
        self.suspects: dict[str, Accused] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.domains: dict[str, Domain] = {}
        self.sets: list[frozenset[str]] = []
        self.size_sets: list[tuple[str, ...]] = []
        self.scale: ScaleFinding | None = None
        self.unreproduced: list[Unreproduced] = []
        self.doubtful: dict[str, str] = {}
        """Nodes that could neither be cleared nor accused, and why."""
        self.systemic = ""
        self.halted = False
        """All descents end: the failure is systemic and the root takes over."""
        self.limit = ""
        self.common: float | None = None
        """What all probes reach of their expectation, once that is known to be the same for all."""
        self.mixed = False
        self.gate: Gate | None = None
        self.split_fails = 0
        self.split_runs = 0
        self.split_ratios: list[float | None] = []
        self.certified: tuple[tuple[str, ...], float | None] | None = None
        self.unexplained: tuple[str, ...] = ()
        """The set that still fails when all that was found is left out."""
        self.shaky = False
        """Something failed and passed in turn: certification takes two passes."""
        self.story: list[str] = []

    @property
    def sequential(self) -> bool:
        """One lane: every probe is chosen by what the one before told."""
        return self.limits.max_concurrent == 1

    @property
    def many_lanes(self) -> int:
        """Lanes, for loops that fill them."""
        return max(1, self.limits.max_concurrent)

    def say(self, sentence: str) -> None:
        """Add a sentence to the operator's story."""
        if not self.story or self.story[-1] != sentence:
            self.story.append(sentence)

    def names(self, nodes: Iterable[str]) -> str:
        """Nodes for a sentence, in topology order."""
        return listed(self.map.order(nodes), 6)

    def judge(self, result: Result) -> str:
        """The outcome, relative to the common level once the whole system is known to be slow."""
        if self.common is None or result.outcome in ("invalid", "passed"):
            return result.outcome
        ratio = result.ratio
        return "passed" if ratio is not None and ratio >= 0.7 * self.common else "failed"

    def present(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those that are neither lost nor suspects."""
        return tuple(node for node in nodes if node not in self.ledger.lost and node not in self.suspects)

    def lenses(self, nodes: Collection[str]) -> list[Lens]:
        """The ways to look at a group, the one with most unproven nodes first."""
        if not self.map.shared_domains(nodes):
            return [PLAIN]
        if not self.map.spans_domains(nodes):
            return [SCALE_UP]
        across = FABRIC if self.case.mnnvl_switch and not self.ledger.switch_broken else OUTSIDE
        if across is OUTSIDE:
            return [SCALE_UP, OUTSIDE]
        return sorted((across, SCALE_UP), key=lambda lens: -len(self.unproven(nodes, lens)))

    def unproven(self, nodes: Iterable[str], lens: Lens) -> tuple[str, ...]:
        """Nodes that no passing probe has cleared of all that the lens shows."""
        return tuple(node for node in nodes if not self.ledger.good(node, lens.layers))

    def clear_of_doubt(self, node: str) -> None:
        """A node in doubt has passed since."""
        self.doubtful.pop(node, None)

    def found(self) -> int:
        """How many causes are named."""
        return len(self.suspects) + len(self.links) + len(self.domains) + len(self.sets) + len(self.size_sets)

    def tally(self, result: Result | None, *, failed: bool) -> None:
        """Count the result of a split, to see a failure of everything early."""
        self.split_runs += 1
        if failed:
            self.split_fails += 1
            self.split_ratios.append(result.ratio if result else None)

    def looks_systemic(self) -> bool:
        """Nearly all parts fail, and alike."""
        if self.mixed or self.split_fails < 4 or self.split_fails < 0.8 * self.split_runs:
            return False
        return alike(self.split_ratios)


def alike(ratios: Sequence[float | None]) -> bool:
    """Whether most values lie within 30 % of their median (a missing value is like another missing one)."""
    known = sorted(ratio for ratio in ratios if ratio is not None)
    if len(known) < len(ratios) / 2:
        return not known
    middle = known[len(known) // 2]
    near = sum(1 for ratio in known if abs(ratio - middle) <= 0.3 * max(middle, 1e-9))
    return near >= 0.7 * len(ratios)
