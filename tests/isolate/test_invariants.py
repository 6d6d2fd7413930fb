"""Any faults, any noise, any size, any order of results: what must always hold of a search.

Examples that once failed are kept by hand below the properties, so that they run in every test run.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.isolation_oracle import Fault, World, cluster
from bench.isolation_rows import grid, said
from isolate import Evidence, Limits
from tests.isolate.harness import consistent, search

KINDS = ("node", "nic", "nvlink", "intermittent", "link", "boundary", "scale", "systemic", "transient", "unschedulable")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = draw(st.integers(2, 40))
    rack = draw(st.sampled_from((0, 1, 2, 3, 4, 8, 16)))
    nvlink = draw(st.sampled_from((1, 1, 2, 4, 9)))
    names, topology = cluster(nodes, rack=rack, block=draw(st.sampled_from((0, 16))), nvlink=nvlink)
    faults = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(KINDS))
        racks = max(1, -(-nodes // rack)) if rack else 1
        ends = draw(st.tuples(st.integers(0, racks - 1), st.integers(0, racks - 1)))
        pair = draw(st.tuples(st.sampled_from(names), st.sampled_from(names)))
        between = (f"rack-{ends[0]}", f"rack-{ends[1]}") if kind == "boundary" else pair
        if kind in ("boundary", "link") and between[0] == between[1]:
            continue
        faults.append(
            Fault(
                kind,  # type: ignore[arg-type]
                draw(st.sampled_from(names)),
                factor=draw(st.sampled_from((0.05, 0.5, 0.79, 0.81))),
                rail=draw(st.sampled_from((None, 0, 1))),
                between=between,
                nodes=draw(st.integers(2, nodes)),
                times=draw(st.integers(1, 3)),
                effect=draw(st.sampled_from(("slow", "slow", "crash", "hang"))) if kind == "node" else "slow",
            )
        )
    world = World(
        names,
        topology,
        tuple(faults),
        traffic=draw(st.sampled_from(("ring", "all-pairs"))),
        noise=draw(st.sampled_from((0.0, 0.01, 0.05))),
        seed=draw(st.integers(0, 1000)),
        switch=draw(st.booleans()),
        single=draw(st.booleans()),
        rails=draw(st.sampled_from((0, 2))),
    )
    if draw(st.booleans()):
        world.vanishing = draw(st.sampled_from(names))
        world.vanishes_at = draw(st.integers(1, 20))
    return world


@st.composite
def bounds(draw: st.DrawFn) -> Limits:
    return Limits(
        min_group=draw(st.sampled_from((2, 2, 3, 4))),
        max_concurrent=draw(st.sampled_from((1, 2, 4, 16, 64))),
        max_probes=draw(st.sampled_from((None, None, None, 0, 1, 5, 20))),
        max_node_seconds=draw(st.sampled_from((None, None, 1000.0, 10000.0))),
        confirm=draw(st.sampled_from((1, 2, 3))),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(), limits=bounds(), order=st.none() | st.integers(0, 10000), stop=st.none() | st.integers(1, 30))
def test_any_search_is_disjoint_within_limits_ends_and_accuses_only_who_failed(
    world: World, limits: Limits, order: int | None, stop: int | None
) -> None:
    findings = search(world, limits=limits, order=None if order is None else random.Random(order), stop_after=stop)
    if findings is not None:
        consistent(world, findings, limits)


@settings(max_examples=30, deadline=None)
@given(world=worlds(), limits=bounds(), seed=st.integers(0, 1000))
def test_the_same_results_give_the_same_findings(world: World, limits: Limits, seed: int) -> None:
    told = []
    for _ in range(2):
        again = World(
            world.names, world.topology, world.faults, world.traffic, world.noise, seed=seed, switch=world.switch
        )
        told.append(search(again, limits=limits))
    assert told[0] == told[1]


@settings(max_examples=30, deadline=None)
@given(world=worlds(), limits=bounds())
def test_evidence_of_one_case_never_breaks_the_next(world: World, limits: Limits) -> None:
    evidence = Evidence()
    for start in range(0, len(world.names) - 1, 5):
        group = world.names[start : start + 6]
        if len(group) < max(2, limits.min_group):
            continue
        findings = search(world, group, limits=limits, evidence=evidence)
        if findings is None:
            evidence.passed(world.case(), world.topology, group)
        else:
            consistent(world, findings, limits)
    assert Evidence.from_dict(evidence.to_dict()).to_dict() == evidence.to_dict()


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(5, 60),
    bad=st.sets(st.integers(0, 59), min_size=1, max_size=5),
    rack=st.sampled_from((0, 1, 3, 8)),
    lanes=st.sampled_from((1, 2, 4, 16, 64)),
    order=st.none() | st.integers(0, 10000),
    least=st.sampled_from((2, 3, 4)),
)
def test_hard_node_faults_are_named_exactly_wherever_enough_nodes_are_good(
    *, nodes: int, bad: set[int], rack: int, lanes: int, order: int | None, least: int
) -> None:
    names, topology = cluster(nodes, rack=rack)
    wrong = [names[index] for index in bad if index < nodes]
    if not wrong or nodes < 2 * least + len(wrong) * least:
        return
    world = World(names, topology, tuple(Fault("node", node) for node in wrong), noise=0.0)
    findings = search(
        world,
        limits=Limits(min_group=least, max_concurrent=lanes),
        order=None if order is None else random.Random(order),
    )
    assert findings is not None
    assert {suspect.node for suspect in findings.suspects} == set(wrong)
    assert {suspect.layer for suspect in findings.suspects} == {"node"}
    assert findings.verdict == "isolated"
    assert not findings.sets
    assert not findings.links


@pytest.mark.parametrize("nodes", [2, 3, 5, 7])
def test_a_healthy_case_needs_no_search(nodes: int) -> None:
    names, topology = cluster(nodes)
    assert search(World(names, topology)) is None


# Shrunk examples that failed once


def plain(nodes: int, *faults: Fault, rack: int = 0, **more: object) -> World:
    names, topology = cluster(nodes, rack=rack)
    return World(names, topology, faults, noise=0.0, **more)  # type: ignore[arg-type]


def checked(world: World, limits: Limits, group: tuple[str, ...] = (), evidence: Evidence | None = None) -> None:
    findings = search(world, group or None, limits=limits, evidence=evidence)
    assert findings is not None
    consistent(world, findings, limits)


def test_a_suspect_that_is_lost_later_stays_a_suspect() -> None:
    world = plain(4, Fault("node", "node-000", 0.05), single=False, vanishing="node-000", vanishes_at=5)
    checked(world, Limits(max_concurrent=2, confirm=1))


def test_where_fewer_partners_exist_than_asked_for_a_suspect_is_probable() -> None:
    world = plain(3, Fault("nic", "node-000", 0.05), single=False)
    checked(world, Limits(max_concurrent=1, confirm=3))


def test_the_same_partners_in_another_order_are_no_other_partners() -> None:
    world = plain(10, Fault("nic", "node-000", 0.05), Fault("node", "node-009", 0.05), rack=1, single=False)
    evidence = Evidence()
    for group in (world.names[:6], world.names[5:]):
        checked(world, Limits(min_group=4, max_concurrent=1, confirm=3), group, evidence)


def test_a_group_of_which_a_node_was_lost_at_once_is_explained_by_that() -> None:
    checked(plain(3, vanishing="node-000", vanishes_at=1), Limits(max_concurrent=1, confirm=1))


@pytest.mark.parametrize("seed", [14, 53])
def test_a_third_of_the_nodes_bad_is_not_systemic(seed: int) -> None:
    row = next(row for row in grid() if (row.nodes, row.k, row.lanes) == (23, 8, 4))
    trial = row.trial(seed)
    findings = search(trial.world, limits=Limits(max_concurrent=4))
    assert findings is not None
    assert said(findings) == trial.truth


def test_a_lost_node_during_mixed_pairings_leaves_no_set_behind() -> None:
    names, topology = cluster(32, rack=4, block=16)
    world = World(names, topology, (Fault("systemic", factor=0.05),), seed=8, vanishing="node-020", vanishes_at=13)
    findings = search(world)
    assert findings is not None
    assert findings.systemic
    assert findings.sets == ()
