"""Drives a planner in any order of results and checks, at every step, what must always hold."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.isolation_oracle import World
from isolate import Evidence, Findings, Isolation, Limits, Probe

MOST = 4000
"""More probes than any search on the sizes of the tests may take."""


def search(
    world: World,
    group: Sequence[str] | None = None,
    *,
    limits: Limits | None = None,
    evidence: Evidence | None = None,
    order: random.Random | None = None,
    stop_after: int | None = None,
) -> Findings | None:
    """Run the case; when it fails, isolate. `order`: results come one at a time, in a random order; else in rounds.

    None: the case passed.
    """
    members = tuple(group or world.names)
    allowed = limits or Limits()
    first = world.first(members)
    if first.outcome == "passed":
        return None
    planner = Isolation(members, world.topology, allowed, evidence or Evidence(), world.case(), first)
    running: list[Probe] = []
    launched = 0
    while not planner.done:
        fresh = planner.ready(running)
        running += fresh
        launched += len(fresh)
        check(world, running, allowed)
        assert launched <= MOST, "the search does not end"
        if not running:
            assert planner.done, "nothing runs, nothing starts, and the search is not done"
            break
        some = [running[order.randrange(len(running))]] if order else list(running)
        for probe in some:
            running.remove(probe)
            planner.record(probe, world.run(probe))
        if stop_after is not None and launched >= stop_after:
            planner.stop("deadline")
    return planner.findings


def check(world: World, running: Sequence[Probe], limits: Limits) -> None:
    """Running probes are disjoint, within the lanes, large enough, in order, and keep NVLink domains apart."""
    nodes = [node for probe in running for node in probe.nodes]
    assert len(nodes) == len(set(nodes)), "two running probes share a node"
    assert len(running) <= limits.max_concurrent
    domains: list[str] = []
    for probe in running:
        assert len(probe.nodes) >= limits.min_group or probe.purpose == "alone", probe
        assert list(probe.nodes) == sorted(probe.nodes, key=world.rank.__getitem__)
        assert set(probe.about) <= set(probe.nodes)
        if probe.variant.mnnvl is not False:
            places = [world.topology.places[node].nvlink for node in probe.nodes]
            domains += {place for place in places if place and places.count(place) > 1}
        if probe.quiet:
            leaf = world.topology.places[probe.about[0]].path
            others = [node for other in running if other is not probe for node in other.nodes]
            assert all(world.topology.places[node].path != leaf for node in others), "not quiet"
    assert len(domains) == len(set(domains)), "two probes with NVLink in one NVLink domain"


def consistent(world: World, findings: Findings, limits: Limits) -> None:
    """What must hold of any findings, whatever the faults were."""
    passed = {node for record in findings.probes if record.result.outcome == "passed" for node in record.probe.nodes}
    failed = {node for record in findings.probes if record.result.outcome == "failed" for node in record.probe.nodes}
    for suspect in findings.suspects:
        assert suspect.node in failed, "accuses a node that only ever passed"
        partners = {
            record.probe.nodes
            for record in findings.probes
            if record.result.outcome == "failed"
            and record.probe.about == (suspect.node,)
            and len(record.probe.nodes) > 1
        }
        enough = limits.confirm if suspect.confidence == "confirmed" else min(2, limits.confirm)
        assert len(partners) >= enough, "accused with too few partners"
        assert findings.nodes[suspect.node].standing in ("suspect", "intermittent")
    for node, told in findings.nodes.items():
        if told.standing == "cleared":
            assert node in passed, "cleared without a pass"
    causes = bool(
        findings.suspects or findings.links or findings.domains or findings.sets or findings.scale or findings.systemic
    )
    if not causes and not findings.limit:
        assert findings.verdict in ("not-reproduced", "inconclusive", "lost")
        assert findings.transient or findings.lost or findings.verdict == "inconclusive"
    if findings.verdict == "isolated" and findings.certified_rest is not None:
        named = {suspect.node for suspect in findings.suspects}
        assert named.isdisjoint(findings.certified_rest.nodes)
    assert findings.headline()
    assert findings.story
    if limits.max_probes is not None:
        assert len(findings.probes) <= limits.max_probes
    rounds = [record.probe.round for record in findings.probes]
    assert findings.rounds == max(rounds, default=0)
    assert set(findings.nodes) == set(world.names) or set(findings.nodes) <= set(world.names)
