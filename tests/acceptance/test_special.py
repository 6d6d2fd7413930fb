"""Situations in which a search could accuse the wrong one, or end too early: what the report says in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cluster import Run, Stop, Workload
from cluster.protocol import Progress
from cluster.simulated import SimulatedCluster
from tests.acceptance.driver import Certified, Finding, certify

Simulate = Callable[..., Certified]
RACKS = "topology: {block: 16, rack: 4}\n"


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Certify a fabric by its text; the all-reduce over all nodes where nothing else is asked for."""

    def run(text: str, *arguments: str, only: str = "all-reduce-full") -> Certified:
        file = tmp_path / "simulation.yaml"
        file.write_text(text, encoding="utf-8")
        return certify(file, tmp_path / "results", "-k", only, *arguments)

    return run


def slow(*numbers: int, factor: float = 0.5) -> str:
    return _faults(f"{{kind: node, node: node-{number:03d}, effect: slow, factor: {factor}}}" for number in numbers)


def nics(*numbers: int) -> str:
    return _faults(f"{{kind: nic, node: node-{number:03d}, factor: 0.4}}" for number in numbers)


def _faults(faults: Iterable[str]) -> str:
    return f"faults: [{', '.join(faults)}]\n"


def blamed(*numbers: int, layer: str = "node") -> set[Finding]:
    names = [f"node-{number:03d}" for number in numbers]
    return {("suspect", name, layer, None) for name in names} | {("accused", name) for name in names}


@pytest.mark.parametrize("fault", [slow(1), nics(1)], ids=["node", "nic"])
def test_of_two_nodes_without_a_healthy_third_it_is_one_of_these_two(simulate: Simulate, fault: str) -> None:
    done = simulate(f"nodes: 2\n{fault}")
    assert done.found == {("set", "node-000", "node-001")}
    case = done.case("all-reduce")
    assert case["verdict"] == "inconclusive"
    assert "one of node-000, node-001" in case["message"]


@pytest.mark.parametrize(("fault", "layer"), [(slow, "node"), (nics, "fabric")])
def test_every_second_node_is_named_though_all_neighbours_fail_together(
    simulate: Simulate, fault: Callable[..., str], layer: str
) -> None:
    bad = range(1, 16, 2)
    assert simulate(f"nodes: 16\ntopology: {{rack: 4}}\n{fault(*bad)}").found == blamed(*bad, layer=layer)


def test_where_all_are_bad_alike_nobody_is_accused(simulate: Simulate) -> None:
    done = simulate(f"nodes: 16\ntopology: {{rack: 4}}\n{slow(*range(16))}", only="all-reduce-full or loopback")
    assert done.found == {("systemic",)}
    reasons = [reason for node in done.report["nodes"] for reason in node["reasons"]]
    assert any("like 16 of 16 nodes: what they share, not this node" in reason for reason in reasons)
    assert done.code == 1


def test_one_node_in_all_is_measured_alone(simulate: Simulate) -> None:
    done = simulate(f"nodes: 1\n{slow(0)}", only="all-reduce-full or loopback")
    assert done.found == {("accused", "node-000")}
    assert done.case("all-reduce")["verdict"] == "skipped"


@pytest.mark.parametrize(("nodes", "bad"), [(3, [2]), (5, [0]), (7, [6]), (23, [11, 22]), (31, [0, 15, 30])], ids=str)
def test_odd_sizes_are_searched_to_the_end(simulate: Simulate, nodes: int, bad: list[int]) -> None:
    done = simulate(f"nodes: {nodes}\ntopology: {{rack: 4}}\n{slow(*bad)}")
    assert done.found == blamed(*bad)
    assert len(done.case("all-reduce")["isolation"]["certified_rest"]["nodes"]) == nodes - len(bad)


@pytest.mark.parametrize(("fault", "layer"), [(slow, "node"), (nics, "fabric")])
def test_no_probe_is_smaller_than_the_minimum_group(simulate: Simulate, fault: Callable[..., str], layer: str) -> None:
    done = simulate(f"nodes: 32\n{RACKS}{fault(13)}", "--min-group-size", "4")
    assert done.found == blamed(13, layer=layer)
    sizes = {len(probe["nodes"]) for probe in done.case("all-reduce")["isolation"]["probes"]}
    assert sizes <= {1, *range(4, 33)}, "a run of one node alone is another question"


def test_a_node_a_little_below_the_floor_is_named(simulate: Simulate) -> None:
    assert simulate(f"nodes: 32\n{RACKS}{slow(13, factor=0.76)}").found == blamed(13)


def test_a_node_within_the_grey_band_is_neither_accused_nor_cleared(simulate: Simulate) -> None:
    done = simulate(f"nodes: 32\n{RACKS}{slow(13, factor=0.79)}")
    case = done.case("all-reduce")
    assert case["verdict"] == "inconclusive"
    assert case["isolation"]["nodes"]["inconclusive"] == ["node-013"]
    assert case["isolation"]["suspects"] == []
    assert len(case["isolation"]["certified_rest"]["nodes"]) == 31


def test_the_leaf_of_a_slow_uplink_is_named_and_none_of_its_nodes(simulate: Simulate) -> None:
    ways = _faults(
        f"{{kind: boundary, between: [rack-3, rack-{other}], factor: 0.4}}" for other in range(6) if other != 3
    )
    done = simulate(f"nodes: 24\ntopology: {{rack: 4}}\n{ways}", only="full")
    assert done.found == {("domain", "rack-3")}


THREE = f"nodes: 32\n{RACKS}{slow(5, 11, 19)}"


def test_a_limit_of_probes_leaves_the_smallest_implicated_set(simulate: Simulate) -> None:
    done = simulate(THREE, "--max-probes", "5")
    case = done.case("all-reduce")
    isolation = case["isolation"]
    assert case["verdict"] == "inconclusive"
    assert len(isolation["probes"]) == 5
    assert isolation["limit"] == "limit of 5 probes reached"
    (group,) = isolation["sets"]
    assert len(group) == 2
    assert {"node-005", "node-011", "node-019"} & set(group)
    assert isolation["suspects"] == []
    assert (done.code, done.report["run_state"]) == (1, "finished")


def test_a_limit_of_node_seconds_keeps_what_was_found_until_then(simulate: Simulate) -> None:
    done = simulate(THREE, "--max-node-seconds", "2500")
    isolation = done.case("all-reduce")["isolation"]
    assert isolation["verdict"] == "inconclusive"
    assert "2500 node-seconds" in isolation["limit"]
    named = {suspect["node"] for suspect in isolation["suspects"]}
    (group,) = isolation["sets"]
    assert named < {"node-005", "node-011", "node-019"}
    assert set(group) & ({"node-005", "node-011", "node-019"} - named)


def test_a_deadline_in_the_middle_of_a_search_leaves_whole_reports(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []
    run = SimulatedCluster.run

    def run_until_the_deadline(self: SimulatedCluster, workload: Workload, stop: Stop, progress: Progress) -> Run:
        launched.append(workload.name)
        if len(launched) == 13:
            stop.set("deadline of 1 s reached")
        return run(self, workload, stop, progress)

    monkeypatch.setattr(SimulatedCluster, "run", run_until_the_deadline)
    done = simulate(THREE, only="full")
    assert done.report["run_state"] == "deadline"
    assert done.code == 2
    first, *others = (case for case in done.report["cases"] if "isolation" in case or case["verdict"] == "skipped")
    assert first["isolation"]["verdict"] == "inconclusive"
    assert "deadline" in first["isolation"]["limit"]
    assert {"node-005", "node-011", "node-019"} & {name for group in first["isolation"]["sets"] for name in group}
    assert len(done.report["cases"]) == 6
    assert all("deadline" in case["message"] for case in others if case["verdict"] == "skipped")


def test_two_racks_of_nvlink_are_held_against_what_their_nics_carry_together(simulate: Simulate) -> None:
    racks = "nodes: 36\naccelerators: 4\nproduct: NVIDIA-GB200\nnvlink_domain: 18\n"
    healthy = simulate(racks).case("all-reduce")
    assert healthy["verdict"] == "passed"
    assert healthy["expected"] == 810
    one = f"{racks}faults: [{{kind: nic, node: node-020, factor: 0.1}}]\n"
    assert simulate(one).found == blamed(20, layer="fabric")
