"""When each kind of fault shows, and when it does not: the rules of simulation.md, one test a rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.simulated.fabrics import cycles, fabric, names, result, run, share, workload

RACKS: dict[str, Any] = {"topology": {"block": 8, "rack": 4}}
TRAYS: dict[str, Any] = {"product": "NVIDIA-GB200", "accelerators": 4, "nvlink_domain": 8, **RACKS}
ALL = names(range(16))


def pair(*numbers: int, **changes: Any) -> Any:
    return workload(names(numbers), **changes)


def test_a_slow_node_shows_in_every_group_with_it_and_in_no_other() -> None:
    fault = [{"kind": "node", "node": "node-003", "effect": "slow", "factor": 0.5}]
    assert share(fault, workload(ALL)) == 0.5
    assert share(fault, pair(3, 4)) == 0.5
    assert share(fault, workload(names([3]), "nccl-loopback-nvswitch")) == 0.5
    assert share(fault, workload(names([3]), "nccl-loopback")) == 0.5
    assert share(fault, pair(4, 5)) == 1.0


def test_a_nic_shows_wherever_traffic_leaves_the_node() -> None:
    fault = [{"kind": "nic", "node": "node-003", "factor": 0.4}]
    assert share(fault, workload(ALL)) == 0.4
    assert share(fault, pair(3, 15)) == 0.4
    assert share(fault, workload(names([3]), "nccl-loopback-nvswitch")) == 1.0
    assert share(fault, pair(4, 5)) == 1.0


def test_a_nic_shows_in_a_loopback_through_the_nics_of_one_node() -> None:
    fault = [{"kind": "nic", "node": "node-003", "factor": 0.4}]
    assert share(fault, workload(names([3]), "nccl-loopback")) == 0.4
    assert share(fault, workload(names([4]), "nccl-loopback")) == 1.0


def test_a_nic_shows_only_when_the_group_spans_nvlink_domains_whichever_node_carries_the_edge() -> None:
    fault = [{"kind": "nic", "node": "node-003", "factor": 0.4}]
    assert share(fault, pair(2, 3), **TRAYS) == 1.0
    assert share(fault, workload(names(range(8))), **TRAYS) == 1.0
    # Rank order puts node-002 next to the other domain, not node-003.
    assert share(fault, pair(3, 2, 9), **TRAYS) == 0.4


def test_with_mnnvl_off_every_node_is_a_domain_of_its_own() -> None:
    fault = [{"kind": "nic", "node": "node-003", "factor": 0.4}]
    assert share(fault, pair(2, 3, mnnvl=False), **TRAYS) == 0.4
    assert share(fault, pair(2, 3, mnnvl=True), **TRAYS) == 1.0
    assert share(fault, workload(names([3]), mnnvl=False), **TRAYS) == 1.0


def test_a_nic_with_a_rail_shows_on_that_rail_and_when_all_are_used() -> None:
    fault = [{"kind": "nic", "node": "node-003", "factor": 0.4, "rail": 5}]
    assert share(fault, pair(3, 4)) == 0.4
    assert share(fault, pair(3, 4, rail=5)) == 0.4
    assert share(fault, pair(3, 4, rail=4)) == 1.0
    assert share([{"kind": "nic", "node": "node-003", "factor": 0.4}], pair(3, 4, rail=4)) == 0.4


def test_nvlink_of_a_domain_of_one_node_always_shows() -> None:
    fault = [{"kind": "nvlink", "node": "node-003", "factor": 0.3}]
    assert share(fault, pair(3, 4)) == 0.3
    assert share(fault, workload(names([3]), "nccl-loopback-nvswitch")) == 0.3
    assert share(fault, pair(3, 4, mnnvl=False)) == 0.3
    # ... except where NVLink is switched off altogether.
    assert share(fault, workload(names([3]), "nccl-loopback")) == 1.0


def test_nvlink_of_a_larger_domain_shows_when_another_member_shares_it() -> None:
    fault = [{"kind": "nvlink", "node": "node-003", "factor": 0.3}]
    assert share(fault, pair(2, 3), **TRAYS) == 0.3
    assert share(fault, workload(ALL), **TRAYS) == 0.3
    assert share(fault, pair(3, 9), **TRAYS) == 1.0
    assert share(fault, workload(names([3])), **TRAYS) == 1.0
    assert share(fault, pair(2, 3, mnnvl=False), **TRAYS) == 1.0


def test_nvlink_of_a_short_last_domain_of_one_node_always_shows() -> None:
    fault = [{"kind": "nvlink", "node": "node-008", "factor": 0.3}]
    keys = {**TRAYS, "topology": {}}
    assert share(fault, pair(3, 8), nodes=9, **keys) == 0.3
    assert share(fault, pair(3, 8, mnnvl=False), nodes=9, **keys) == 0.3


def test_an_intermittent_fault_is_drawn_for_each_repeat() -> None:
    fault = {"kind": "intermittent", "node": "node-003", "probability": 0.5, "factor": 0.5}
    healthy = cycles(run(fabric(), pair(3, 4)))[0]
    work = pair(3, 4, options={"numCycles": 400})
    shown = [value < 0.75 * healthy for value in cycles(run(fabric(faults=[fault]), work))]
    assert len(shown) == 400
    assert 140 < sum(shown) < 260
    assert share([{**fault, "probability": 1.0}], pair(3, 4)) == 0.5
    assert share([{**fault, "probability": 0.0}], pair(3, 4)) == 1.0
    assert share([{**fault, "probability": 1.0}], pair(4, 5)) == 1.0


def test_a_link_shows_on_edges_of_the_ring_in_rank_order_and_on_the_closing_one() -> None:
    fault = [{"kind": "link", "between": ["node-001", "node-002"], "factor": 0.3}]
    assert share(fault, workload(ALL)) == 0.3
    assert share(fault, pair(1, 2)) == 0.3
    assert share(fault, pair(1, 9, 2, 10)) == 1.0
    assert share(fault, pair(1, 9, 10, 2)) == 0.3
    assert share(fault, pair(1, 3)) == 1.0


@pytest.mark.parametrize(
    "entry", ["nccl-all-reduce", "nccl-all-gather", "nccl-reduce-scatter", "nccl-broadcast", "nccl-sendrecv"]
)
def test_every_collective_but_all_to_all_uses_the_ring_only(entry: str) -> None:
    fault = [{"kind": "link", "between": ["node-001", "node-009"], "factor": 0.3}]
    assert share(fault, workload(ALL, entry)) == 1.0
    assert share(fault, workload(names([1, 9]), entry)) == 0.3


def test_all_to_all_uses_every_pair() -> None:
    fault = [{"kind": "link", "between": ["node-001", "node-009"], "factor": 0.3}]
    assert share(fault, workload(ALL, "nccl-alltoall")) == 0.3
    assert share(fault, workload(names([1, 2, 3]), "nccl-alltoall")) == 1.0
    # A probe may ask for all pairs in place of its case's ring.
    assert share(fault, workload(ALL, collective="alltoall", traffic="all-pairs")) == 0.3


def test_a_boundary_shows_where_an_edge_crosses_between_the_two_domains() -> None:
    fault = [{"kind": "boundary", "between": ["rack-1", "rack-2"], "factor": 0.4}]
    assert share(fault, workload(ALL), **RACKS) == 0.4
    assert share(fault, pair(4, 11), **RACKS) == 0.4
    assert share(fault, pair(4, 5, 6, 7), **RACKS) == 1.0
    assert share(fault, pair(0, 4, 12, 8), **RACKS) == 1.0
    assert share(fault, workload(names([0, 4, 12, 8]), "nccl-alltoall"), **RACKS) == 0.4
    assert share(fault, workload(names([0, 4, 12]), "nccl-alltoall"), **RACKS) == 1.0


def test_a_boundary_may_lie_between_domains_of_any_level() -> None:
    fault = [{"kind": "boundary", "between": ["block-0", "block-1"], "factor": 0.4}]
    assert share(fault, workload(names(range(8))), **RACKS) == 1.0
    assert share(fault, workload(ALL), **RACKS) == 0.4


def test_a_size_fault_shows_from_its_number_of_nodes_on() -> None:
    fault = [{"kind": "scale", "nodes": 9, "factor": 0.5}]
    assert share(fault, workload(names(range(9)))) == 0.5
    assert share(fault, workload(names(range(8)))) == 1.0


def test_a_systemic_fault_shows_in_every_run() -> None:
    fault = [{"kind": "systemic", "factor": 0.05}]
    assert share(fault, workload(ALL)) == 0.05
    assert share(fault, workload(names([7]), "nccl-loopback")) == 0.05


def test_faults_that_overlap_leave_the_smallest_factor() -> None:
    faults = [
        {"kind": "node", "node": "node-003", "effect": "slow", "factor": 0.5},
        {"kind": "nic", "node": "node-004", "factor": 0.7},
        {"kind": "scale", "nodes": 2, "factor": 0.9},
    ]
    assert share(faults, pair(3, 4)) == 0.5
    assert share(faults, pair(4, 5)) == 0.7
    assert share(faults, pair(5, 6)) == 0.9


def test_a_node_on_tcp_sockets_shows_where_the_fabric_is_used_and_its_transport_says_so() -> None:
    faults = [{"kind": "transport", "node": "node-003", "effect": "socket"}]
    assert share(faults, workload(ALL)) == 0.02
    assert share(faults, workload(names([3]), "nccl-loopback-nvswitch")) == 1.0
    done = run(fabric(faults=faults), workload(ALL))
    assert result(done)["transport"]["fallback_nodes"] == ["node-003"]
    lines = done.log.decode().splitlines()
    assert [line.split(":")[0] for line in lines if line.endswith("Using network Socket")] == ["node-003"]
    assert [line.split(":")[0] for line in lines if line.endswith("Using network IB")] == ["node-000"]


def test_a_slow_gpu_slows_its_group_and_its_own_rank_measures_longest() -> None:
    faults = [{"kind": "gpu", "node": "node-003", "gpu": 5, "factor": 0.6}]
    assert share(faults, pair(2, 3)) == 0.6
    assert share(faults, pair(4, 5)) == 1.0
    per_rank = result(run(fabric(faults=faults), pair(2, 3)))["per_rank"]
    slowest = max(per_rank, key=lambda entry: entry["time_us"])
    others = [entry["time_us"] for entry in per_rank if entry is not slowest]
    assert (slowest["rank"], slowest["node"]) == (13, "node-003")
    assert slowest["time_us"] > 1.05 * max(others)


def test_corrupt_results_are_wrong_in_every_run_of_the_node_and_as_fast_as_ever() -> None:
    faults = [{"kind": "node", "node": "node-003", "effect": "corrupt"}]
    assert share(faults, pair(3, 4)) == 1.0
    done = run(fabric(faults=faults), pair(3, 4))
    assert all(row["wrong"] > 0 for row in result(done)["cycles"][0]["rows"])
    assert b"FAILED" in done.log
    clean = run(fabric(faults=faults), pair(4, 5))
    assert all(row["wrong"] == 0 for row in result(clean)["cycles"][0]["rows"])


def test_corrupt_results_of_one_size_leave_the_other_sizes_right() -> None:
    faults = [{"kind": "node", "node": "node-003", "effect": "corrupt", "size": "8M"}]
    rows = result(run(fabric(faults=faults), pair(3, 4)))["cycles"][0]["rows"]
    assert [row["size"] for row in rows if row["wrong"]] == [8 << 20]


def test_nan_leaves_no_number_in_the_table_or_the_result() -> None:
    faults = [{"kind": "node", "node": "node-003", "effect": "nan"}]
    done = run(fabric(faults=faults), pair(3, 4))
    rows = [line.split() for line in done.log.decode().splitlines() if line.strip()[:1].isdigit()]
    assert all(row[7] == "nan" and row[8] == "N/A" for row in rows)
    assert all(row["busbw"] is None and row["wrong"] is None for row in result(done)["cycles"][0]["rows"])
    assert cycles(run(fabric(faults=faults), pair(4, 5)))[0] > 0
