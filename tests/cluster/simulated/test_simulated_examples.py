"""The simulation files in docs/examples: all can be read, and each says what must be found in it."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import catalog
from cluster import RunState, Workload
from cluster.simulated import SimulatedCluster
from cluster.simulated.spec import KINDS
from tests.cluster.simulated.fabrics import run, shipped

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
EXPECTED: dict[str, dict[str, Any]] = catalog.read_yaml(EXAMPLES / "expect.yaml")
LATER = {"transport", "gpu"}
"""Kinds that came with the readers and criteria: no pairs of them."""


def faults(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = catalog.read_yaml(EXAMPLES / name).get("faults", [])
    return found


def full_scale(name: str) -> tuple[SimulatedCluster, Workload]:
    """The cluster of an example, and the all-reduce over all of its nodes as the suite launches it first."""
    cluster = SimulatedCluster.from_file(EXAMPLES / name, shipped())
    nodes = cluster.nodes().nodes
    entry = shipped().entry("nccl-all-reduce")
    return cluster, Workload(
        name="first",
        case="nccl-all-reduce-full-scale",
        entry=entry.name,
        framework=entry.framework,
        program=entry.program,
        nodes=tuple(node.name for node in nodes),
        ranks_per_node=nodes[0].accelerators,
        backend="nccl",
        options=entry.resolve_options({}),
        collective="all_reduce",
        traffic="ring",
    )


def test_every_simulation_file_has_its_expectation_and_none_is_missing() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml")}
    simulations = {name for name in files if not name.endswith("certification.yaml")} - {"expect.yaml"}
    assert simulations == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_is_valid_and_expects_only_nodes_and_domains_that_it_has(name: str) -> None:
    cluster = SimulatedCluster.from_file(EXAMPLES / name, shipped())
    nodes = cluster.nodes().nodes
    known = {node.name for node in nodes} | {domain for node in nodes for domain in node.path}
    expected = EXPECTED[name]
    named = {suspect["node"] for suspect in expected.get("suspects", [])}
    named |= {end for link in expected.get("links", []) for end in link["between"]}
    for key in ("domains", "lost", "unhealthy", "unschedulable"):
        named |= set(expected.get(key, []))
    assert named <= known


def test_there_is_a_file_for_every_kind_of_fault() -> None:
    single = {only[0]["kind"] for name in EXPECTED if len(only := faults(name)) == 1}
    assert single == set(KINDS)


def test_there_is_a_file_for_every_pair_of_kinds() -> None:
    pairs = {frozenset(fault["kind"] for fault in both) for name in EXPECTED if len(both := faults(name)) == 2}
    assert {frozenset(pair) for pair in combinations(sorted(set(KINDS) - LATER), 2)} <= pairs


def test_a_node_of_the_eight_turns_unhealthy_in_the_middle_of_the_first_run() -> None:
    cluster, work = full_scale("eight-nodes.yaml")
    done = run(cluster, work)
    assert done.state is RunState.UNHEALTHY
    assert done.events[0].node == "gpu-node-12"
    assert "Xid 79" in done.events[0].message
    assert done.durations["running"] > 0
    assert b"float" in done.log


@pytest.mark.parametrize("kind", ["lost", "health"])
def test_a_node_that_goes_in_the_middle_does_so_in_the_first_run(kind: str) -> None:
    for name, expected in EXPECTED.items():
        if kind in {fault["kind"] for fault in faults(name)} and not expected.get("unschedulable"):
            cluster, work = full_scale(name)
            done = run(cluster, work)
            assert done.durations["running"] > 0, name
            assert done.state in {RunState.LOST, RunState.UNHEALTHY}, name


def test_five_hundred_nodes_are_measured_one_by_one_in_virtual_time_side_by_side() -> None:
    cluster = SimulatedCluster.from_file(EXAMPLES / "h100-512-loopback.yaml", shipped())
    entry = shipped().entry("nccl-loopback")
    options = entry.resolve_options({"minBytes": "1G", "maxBytes": "16G"})
    runs = [
        run(
            cluster,
            Workload(
                name=f"loopback-{index}",
                case=f"nccl-loopback-intra-node-{index:04d}",
                entry=entry.name,
                framework="torch",
                program=entry.program,
                nodes=(node.name,),
                ranks_per_node=8,
                backend="nccl",
                env=entry.env,
                options=options,
                collective="all_reduce",
                traffic="ring",
            ),
        )
        for index, node in enumerate(cluster.nodes().nodes)
    ]
    assert {done.started for done in runs} == {0.0}
    assert {done.state for done in runs} == {RunState.SUCCEEDED}
