"""Every kind of cause is named exactly, and nothing else; the sizes, placements and lanes vary."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.isolation_drive import isolate
from bench.isolation_oracle import Fault, World, cluster
from bench.isolation_rows import Row, grid, kinds, said
from isolate import Case, Evidence, Findings, Hint, Isolation, Limits, Probe, Result, Variant
from tests.isolate.harness import search

ROWS = [row for row in kinds() if row.nodes <= 144 and "intermittent" not in row.name]
GRID = [row for row in grid() if row.nodes in (8, 23, 64) and row.k and row.lanes in (1, 16)]


def named(findings: Findings | None) -> set[str]:
    assert findings is not None
    return {suspect.node for suspect in findings.suspects}


def world(nodes: int, *faults: Fault, rack: int = 8, nvlink: int = 1, **more: object) -> World:
    names, topology = cluster(nodes, rack=rack, nvlink=nvlink)
    return World(names, topology, faults, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name} {row.nodes} {row.k}")
def test_the_cause_is_named_exactly(row: Row) -> None:
    for seed in (1, 2, 3):
        trial = row.trial(seed)
        cost = isolate(trial.world, trial.world.names, Limits(max_concurrent=row.lanes))
        assert cost is not None
        assert cost.findings is not None
        assert said(cost.findings) == trial.truth, seed


@pytest.mark.parametrize("row", GRID, ids=lambda row: f"{row.nodes} {row.k} {row.lanes}")
def test_node_faults_are_named_exactly_with_one_lane_and_with_many(row: Row) -> None:
    for seed in (1, 2, 3):
        trial = row.trial(seed)
        cost = isolate(trial.world, trial.world.names, Limits(max_concurrent=row.lanes))
        assert cost is not None
        assert cost.findings is not None
        assert said(cost.findings) == trial.truth, seed
        assert row.target.jobs is None or cost.jobs - cost.apart <= row.target.jobs


def test_intermittent_faults_are_recalled_and_nobody_else_is_accused() -> None:
    found = faults = 0
    for seed in range(60):
        names, topology = cluster(64)
        bad = random.Random(seed).choice(names)
        flaky = World(names, topology, (Fault("intermittent", bad),), seed=seed)
        findings = search(flaky)
        if findings is None:
            continue
        faults += 1
        found += bad in named(findings)
        assert named(findings) <= {bad}
        assert not findings.links
    assert found >= 0.97 * faults


@pytest.mark.slow
@pytest.mark.parametrize("row", list(kinds()), ids=lambda row: f"{row.name} {row.nodes} {row.k}")
def test_two_hundred_seeds_of_every_kind(row: Row) -> None:
    if row.nodes > 512 or "intermittent" in row.name:
        pytest.skip("the bench does these")
    for seed in range(1, 201):
        trial = row.trial(seed)
        cost = isolate(trial.world, trial.world.names, Limits(max_concurrent=row.lanes))
        assert cost is not None
        assert cost.findings is not None
        assert said(cost.findings) == trial.truth, seed


# What must be shown (special cases)


def test_two_nodes_and_no_other_healthy_node_give_a_set_and_no_name() -> None:
    findings = search(world(2, Fault("node", "node-001")))
    assert findings is not None
    assert findings.suspects == ()
    assert findings.sets == (frozenset({"node-000", "node-001"}),)
    assert findings.headline() == "suspects: one of node-000, node-001"
    assert findings.verdict == "inconclusive"
    assert any("look there first" in sentence and "node-001" in sentence for sentence in findings.story)


def test_two_nodes_and_good_partners_known_to_the_session_give_a_name() -> None:
    pair = world(8, Fault("node", "node-001"))
    evidence = Evidence()
    evidence.passed(pair.case(), pair.topology, ["node-002", "node-003"])
    findings = search(pair, ["node-000", "node-001"], evidence=evidence)
    assert named(findings) == {"node-001"}


def test_partners_outside_the_group_are_not_taken_where_that_is_forbidden() -> None:
    pair = world(8, Fault("node", "node-001"))
    evidence = Evidence()
    evidence.passed(pair.case(), pair.topology, ["node-002", "node-003"])
    findings = search(pair, ["node-000", "node-001"], evidence=evidence, limits=Limits(borrow=False))
    assert named(findings) == set()


@pytest.mark.parametrize("nodes", [3, 6, 8, 10, 23, 64])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_every_second_node_bad_is_found_by_mixed_pairings(nodes: int, lanes: int) -> None:
    faulty = world(nodes)
    bad = faulty.names[1::2]
    faulty = world(nodes, *(Fault("node", node) for node in bad))
    findings = search(faulty, limits=Limits(max_concurrent=lanes))
    assert named(findings) == set(bad)


@pytest.mark.parametrize("nodes", [4, 7, 8, 23, 64])
@pytest.mark.parametrize("lanes", [1, 16])
def test_when_all_nodes_are_bad_it_is_systemic_and_no_node_is_accused(nodes: int, lanes: int) -> None:
    faulty = world(nodes)
    faulty = world(nodes, *(Fault("node", node) for node in faulty.names))
    findings = search(faulty, limits=Limits(max_concurrent=lanes))
    assert findings is not None
    assert findings.systemic
    assert findings.suspects == ()
    assert findings.verdict == "systemic"


def test_a_node_much_worse_than_the_common_level_is_still_named() -> None:
    findings = search(world(64, Fault("systemic", factor=0.5), Fault("node", "node-017", factor=0.1)))
    assert findings is not None
    assert findings.systemic
    assert named(findings) == {"node-017"}


def test_a_group_of_one_node_is_that_node_or_nothing_known() -> None:
    alone = world(1, Fault("node", "node-000"))
    findings = search(alone)
    assert findings is not None
    assert findings.verdict == "inconclusive"
    assert findings.sets == (frozenset({"node-000"}),)


@pytest.mark.parametrize("nodes", [9, 11, 16, 23, 61])
@pytest.mark.parametrize("lanes", [1, 16])
def test_a_group_whose_minimum_is_four_is_padded_with_good_nodes(nodes: int, lanes: int) -> None:
    findings = search(world(nodes, Fault("node", "node-003")), limits=Limits(min_group=4, max_concurrent=lanes))
    assert named(findings) == {"node-003"}


@pytest.mark.parametrize("seed", range(8))
def test_a_node_a_little_below_the_floor_is_inconclusive_or_named_after_clear_failures(seed: int) -> None:
    grey = world(32, Fault("node", "node-009", factor=0.795), seed=seed)
    findings = search(grey)
    if findings is None:
        return
    assert named(findings) <= {"node-009"}
    assert findings.verdict != "not-reproduced" or findings.transient
    assert all(told.standing != "cleared" for node, told in findings.nodes.items() if node in named(findings))


def test_a_node_always_in_the_grey_band_is_neither_cleared_nor_accused() -> None:
    grey = world(32, Fault("node", "node-009", factor=0.8), noise=0.0)
    findings = search(grey)
    assert findings is not None
    assert findings.suspects == ()
    assert findings.nodes["node-009"].standing == "inconclusive"
    assert findings.headline().startswith("inconclusive: node-009")
    assert all(told.standing == "cleared" for node, told in findings.nodes.items() if node != "node-009")


@pytest.mark.parametrize("traffic", ["ring", "all-pairs"])
def test_a_slow_uplink_is_the_leaf_and_none_of_its_nodes(traffic: str) -> None:
    faults = [Fault("boundary", between=("rack-2", f"rack-{other}")) for other in (0, 1, 3, 4, 5, 6, 7)]
    findings = search(world(64, *faults, traffic=traffic))
    assert findings is not None
    assert [domain.name for domain in findings.domains] == ["rack-2"]
    assert findings.suspects == ()
    assert findings.links == ()
    assert findings.domains[0].level == "rack"


def test_a_slow_uplink_of_a_leaf_that_is_one_node_is_that_node() -> None:
    faults = [Fault("boundary", between=("rack-2", f"rack-{other}")) for other in (0, 1, 3, 4, 5, 6, 7)]
    findings = search(world(8, *faults, rack=1))
    assert named(findings) == {"node-002"}
    assert findings is not None
    assert findings.suspects[0].layer == "fabric"


def test_a_boundary_of_two_leaves_in_all_stays_a_link_between_them() -> None:
    findings = search(world(16, Fault("boundary", between=("rack-0", "rack-1"))))
    assert findings is not None
    assert [link.between for link in findings.links] == [("rack-0", "rack-1")]
    assert findings.links[0].level == "rack"
    assert findings.domains == ()


def test_a_failure_that_does_not_come_again_is_not_called_harmless() -> None:
    findings = search(world(64, Fault("transient")))
    assert findings is not None
    assert findings.verdict == "not-reproduced"
    assert "95 %" in findings.transient
    assert findings.headline().startswith("not reproduced")


def test_two_faults_that_mask_each_other_end_as_both_or_the_one_that_hides() -> None:
    masked = world(
        32, Fault("node", "node-001"), Fault("link", between=("node-001", "node-018"), factor=0.3), traffic="all-pairs"
    )
    assert named(search(masked)) == {"node-001"}


def test_a_hung_node_and_a_crashed_node_are_named() -> None:
    findings = search(world(64, Fault("node", "node-005", effect="hang"), Fault("node", "node-040", effect="crash")))
    assert named(findings) == {"node-005", "node-040"}


# Layers


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("switch", [True, False])
@pytest.mark.parametrize(("kind", "layer"), [("node", "node"), ("nic", "fabric"), ("nvlink", "scale-up")])
def test_layers_are_told_apart_by_variants_or_by_a_run_alone(single: bool, switch: bool, kind: str, layer: str) -> None:
    faulty = world(36, Fault(kind, "node-020"), rack=9, nvlink=9, single=single, switch=switch)  # type: ignore[arg-type]
    findings = search(faulty)
    assert findings is not None
    assert [(suspect.node, suspect.layer) for suspect in findings.suspects] == [("node-020", layer)]


def test_a_switch_that_took_no_effect_proves_nothing_about_the_layer() -> None:
    class Stuck(World):
        """Says that it switched NVLink off, and did not."""

        def run(self, probe: Probe) -> Result:
            told = super().run(replace(probe, variant=Variant(rail=probe.variant.rail)))
            return replace(told, proven=probe.variant.mnnvl is not False)

    names, topology = cluster(36, rack=9, nvlink=9)
    findings = search(Stuck(names, topology, (Fault("nic", "node-020"),), switch=True))
    assert findings is not None
    assert [(suspect.node, suspect.layer) for suspect in findings.suspects] == [("node-020", "fabric")]


def test_without_a_run_alone_and_without_variants_the_text_says_what_was_not_told_apart() -> None:
    findings = search(world(32, Fault("nic", "node-003"), single=False))
    assert findings is not None
    assert named(findings) == {"node-003"}
    assert any("node or fabric" in words for words in findings.suspects[0].alternatives)


def test_rails_tell_which_nic() -> None:
    findings = search(world(32, Fault("nic", "node-003", 0.4, rail=5), rails=8))
    assert findings is not None
    assert [(suspect.node, suspect.layer, suspect.rail) for suspect in findings.suspects] == [("node-003", "fabric", 5)]
    assert any("cannot tell those apart" in sentence for sentence in findings.story)


def test_all_rails_bad_is_said_without_a_rail() -> None:
    findings = search(world(32, Fault("nic", "node-003", 0.4), rails=4))
    assert findings is not None
    assert findings.suspects[0].rail is None
    assert any("all its NICs" in words for words in findings.suspects[0].alternatives)


# Hints and evidence


def test_right_hints_explain_the_failure_in_one_round_and_its_confirmation() -> None:
    faulty = world(512, Fault("node", "node-077", effect="crash"))
    cost = isolate(faulty, faulty.names, Limits())
    assert cost is not None
    assert cost.findings is not None
    assert named(cost.findings) == {"node-077"}
    assert {probe.purpose for probe in cost.probes if probe.round == 1} == {"hint"}
    assert cost.rounds <= 3
    assert cost.jobs <= 10


def test_wrong_hints_name_nobody() -> None:
    faulty = world(64, Fault("node", "node-050"))
    case = faulty.case()
    first = Result("failed", 20.0, 45.0, hints=(Hint("node-003", "slowest rank", peer="node-004"),))
    planner = Isolation(faulty.names, faulty.topology, Limits(), Evidence(), case, first)
    while not planner.done:
        for probe in planner.ready():
            planner.record(probe, faulty.run(probe))
    assert named(planner.findings) == {"node-050"}
    assert planner.findings.nodes["node-003"].standing == "cleared"


def test_a_suspect_of_an_earlier_case_is_tested_first_and_never_taken_over_unseen() -> None:
    evidence = Evidence()
    evidence.suspect("node-021", "failed all-gather")
    faulty = world(64, Fault("node", "node-050"))
    cost = isolate(faulty, faulty.names, Limits(), evidence)
    assert cost is not None
    assert cost.findings is not None
    assert cost.probes[1].about[0] == "node-021"
    assert named(cost.findings) == {"node-050"}


def test_a_named_suspect_is_handed_on_to_the_next_case() -> None:
    evidence = Evidence()
    faulty = world(64, Fault("node", "node-050"))
    search(faulty, evidence=evidence)
    assert list(evidence.suspects) == ["node-050"]
    cost = isolate(faulty, faulty.names, Limits(), evidence)
    assert cost is not None
    assert cost.rounds <= 3


def test_a_pass_counts_only_for_the_same_sensitivity_and_layer() -> None:
    names, topology = cluster(8)
    evidence = Evidence()
    small, large = Case(sensitivity="1M"), Case(sensitivity="16G")
    evidence.passed(small, topology, names)
    assert evidence.nodes(large) == frozenset()
    assert evidence.layers(small, "node-001") == {"node", "fabric"}
    evidence.passed(large, topology, names[:1])
    assert evidence.layers(large, "node-000") == {"node"}


@pytest.mark.parametrize("switch", [True, False])
@pytest.mark.parametrize("domain", [3, 4, 9])
@pytest.mark.parametrize("bad", [("node-006",), ("node-004",), ("node-003", "node-006")])
def test_nvlink_faults_are_named_in_domains_of_any_size(switch: bool, domain: int, bad: tuple[str, ...]) -> None:
    faulty = world(36, *(Fault("nvlink", node) for node in bad), rack=domain, nvlink=domain, switch=switch)
    findings = search(faulty)
    assert findings is not None
    assert {(suspect.node, suspect.layer) for suspect in findings.suspects} == {(node, "scale-up") for node in bad}


def test_two_bad_in_a_domain_of_four_are_found_by_pairing_its_members_anew() -> None:
    faulty = world(32, Fault("nvlink", "node-024"), Fault("nvlink", "node-026"), rack=4, nvlink=4, switch=True)
    assert named(search(faulty)) == {"node-024", "node-026"}


def test_one_bad_of_an_nvlink_domain_of_two_is_one_of_the_two() -> None:
    findings = search(world(16, Fault("nvlink", "node-004"), rack=2, nvlink=2, switch=True))
    assert findings is not None
    assert findings.suspects == ()
    assert findings.sets == (frozenset({"node-004", "node-005"}),)
