"""Which faults a session would have seen, and which not: per component, how large and how likely.

A pass is not a proof of health; it rules out faults above a size and a probability. The size follows from the floor: a
component whose fault costs less than the distance between what was measured and the floor passes. The probability
follows from the number of runs that a node took part in: a fault that shows in a run with probability p escapes n
independent runs with probability (1-p)^n, so with 95 % confidence p is below 1 - 0.05^(1/n). What no case exercised
is said too: a reader must not take silence for health.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports import words
from reports.record import CaseRecord
from reports.text import plural

MISS = 0.05
"""Chance of overlooking that the stated probabilities allow."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the session says of one component."""

    component: str
    runs: int
    """Passed runs of the node that took part in fewest; 0 = not tested."""
    smallest_loss: float | None
    """Smallest loss of performance that would have failed, as a share of what was measured; None: not judged."""
    tested_by: tuple[str, ...] = ()

    @property
    def size(self) -> str:
        """How large a fault would have been seen."""
        if not self.runs:
            return "none: not tested by this session"
        if self.smallest_loss is None:
            return "failures and wrong results; loss of bandwidth was not judged"
        return f"failures, wrong results, a loss of more than {self.smallest_loss:.0%}"

    @property
    def probability(self) -> str:
        """How often a fault must show to have been seen with 95 % confidence."""
        if not self.runs:
            return "–"
        return f"shows in at least {1 - MISS ** (1 / self.runs):.0%} of runs ({plural(self.runs, 'run')} a node)"


Uses = Callable[[CaseRecord], bool]


def _metric(name: str) -> Uses:
    return lambda case: case.measurement is not None and name in case.measurement.metrics


def _on_gpus(case: CaseRecord) -> bool:
    return case.backend == "nccl"


COMPONENTS: tuple[tuple[str, Uses], ...] = (
    ("GPU compute", _metric("gemmTFLOPs")),
    ("GPU memory", _metric("hbmBandwidthGBps")),
    ("host link (PCIe)", _metric("pcieBandwidthGBps")),
    ("NVLink inside its domain", lambda case: _on_gpus(case) and case.layer == "scale-up"),
    ("NICs, cables and leaf switches", lambda case: _on_gpus(case) and case.layer == "fabric"),
    ("spine switches", lambda case: _on_gpus(case) and "spine" in case.tiers_loaded),
    ("host network (CPU collectives)", lambda case: case.backend == "gloo" and len(case.nodes) > 1),
    ("storage", _metric("writeBandwidthGBps")),
)


def seen(cases: Sequence[CaseRecord]) -> list[Seen]:
    """One statement a component, in the order of `COMPONENTS`, from cases that passed and probes that passed."""
    return [_seen(name, [case for case in cases if uses(case)]) for name, uses in COMPONENTS]


def _seen(component: str, cases: Sequence[CaseRecord]) -> Seen:
    runs: Counter[str] = Counter()
    for case in cases:
        for nodes in _passed(case):
            runs.update(nodes)
    losses = [1 - bound / value for case in cases for value, bound in _margins(case)]
    # The least sensitive counts: a node may have taken part in that one only.
    loss = max((each for each in losses if each > 0), default=None)
    tested = tuple(dict.fromkeys(f"{case.entry} {case.scale}".strip() for case in cases if any(_passed(case))))
    return Seen(component, min(runs.values(), default=0), loss, tested)


def _passed(case: CaseRecord) -> list[list[str]]:
    """The node sets that passed: the case's own, or those of its probes."""
    if case.verdict == "passed":
        return [case.nodes]
    found = case.isolation
    return [probe.nodes for probe in found.probes if probe.outcome == "passed"] if found is not None else []


def _margins(case: CaseRecord) -> list[tuple[float, float]]:
    """(value, floor) of what passed: the case, or its probes of several nodes that ran as the case does."""
    if case.verdict == "passed":
        value, floor = words.deciding(case)[0], words.floor(case)
        return [(value, floor)] if value and floor is not None else []
    probes = case.isolation.probes if case.isolation is not None else []
    alike = (each for each in probes if each.outcome == "passed" and len(each.nodes) > 1 and not each.variant)
    return [(each.value, each.floor) for each in alike if each.value and each.floor is not None]
