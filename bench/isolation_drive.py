"""Drives a planner against the model: every probe lasts one unit of time, a round is what starts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.isolation_oracle import World
from isolate import Evidence, Findings, Isolation, Limits, Probe

APART = frozenset({"quiet", "certify", "alone", "rail", "layer"})
"""Purposes that the targets count apart: quiet confirmation, certification, and naming the part of a suspect."""


@dataclass
class Cost:
    """What an isolation cost."""

    findings: Findings | None = None
    jobs: int = 0
    apart: int = 0
    """Jobs that the targets count apart."""
    searching: int = 0
    """Jobs without pins, confirmation, naming and certification."""
    rounds: int = 0
    all_rounds: int = 0
    node_runs: int = 0
    seconds: float = 0.0
    probes: list[Probe] = field(default_factory=list)


PINS = frozenset({"pin", "confirm"})


def isolate(world: World, group: Sequence[str], limits: Limits, evidence: Evidence | None = None) -> Cost | None:
    """Run the case; when it fails, isolate. None: it passed."""
    first = world.first(group)
    if first.outcome == "passed":
        return None
    planner = Isolation(group, world.topology, limits, evidence or Evidence(), world.case(), first)
    cost = Cost()
    while not planner.done:
        probes = planner.ready([])
        if not probes:
            break
        purposes = {probe.purpose for probe in probes}
        cost.all_rounds += 1
        cost.rounds += bool(purposes - APART)
        for probe in probes:
            cost.jobs += 1
            cost.apart += probe.purpose in APART
            cost.searching += probe.purpose not in APART | PINS
            if probe.purpose not in APART:
                cost.node_runs += len(probe.nodes)
            planner.record(probe, world.run(probe))
        cost.probes += probes
    assert planner.done, "the planner waits for nothing"
    cost.findings = planner.findings
    return cost
