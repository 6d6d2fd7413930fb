from __future__ import annotations

import pytest

from cluster import Node
from reports.record import Budget, Versions
from reports.spending import Spending, first_end
from reports.tiers import tiers_loaded
from tests.reports.sessions import cases


def test_probes_node_seconds_and_wall_time_are_added_up() -> None:
    spending = Spending()
    for case in cases():
        spending.add(case)
    used = spending.budget(Budget(planned_probes=20))
    assert (used.planned_probes, used.used_probes, used.used_wall_seconds) == (20, 6, 320.0)
    # 8 nodes for 61.5 s, probes of 4, 4, 2, 2, 2 and 6 nodes for 40 s each, one node for 30 s.
    assert used.used_node_seconds == 8 * 61.5 + 20 * 40 + 30
    assert first_end(cases()[0]) == 71.5


def test_versions_come_from_the_runs_where_nobody_else_knows_them() -> None:
    spending = Spending()
    for case, version in zip(cases(), ("2.27", "2.26"), strict=True):
        assert case.measurement is not None
        measured = case.measurement.model_copy(update={"versions": {"nccl": version, "cuda": "12.9"}})
        spending.add(case.model_copy(update={"measurement": measured}))
    found = spending.versions(Versions(cuda="13.0"))
    assert (found.nccl, found.cuda) == ("2.27, 2.26", "13.0")
    assert found.suite


@pytest.mark.parametrize(
    ("racks", "traffic", "layer", "tiers"),
    [
        ("aabb", "ring", "fabric", ["leaf"]),
        ("aabb", "all-pairs", "fabric", ["leaf", "spine"]),
        ("aaaa", "all-pairs", "fabric", ["leaf"]),
        ("a", "ring", "fabric", []),
        ("aa", "ring", "scale-up", ["nvlink"]),
    ],
)
def test_a_ring_loads_no_spine(racks: str, traffic: str, layer: str, tiers: list[str]) -> None:
    nodes = [Node(f"n{index}", topology=(("rack", rack),)) for index, rack in enumerate(racks)]
    assert tiers_loaded(nodes, traffic, layer) == tiers
