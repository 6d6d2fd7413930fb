"""The rules of the search, one by one: what is never done, what is always done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.isolation_drive import isolate
from bench.isolation_oracle import Fault, World, cluster
from isolate import Case, Evidence, Findings, Isolation, Limits, Place, Probe, Result, Topology
from isolate.ledger import Ledger
from isolate.requests import Ask, Join, Steps
from isolate.schedule import Scheduler, weigh
from isolate.topology import Map
from tests.isolate.harness import search


def world(nodes: int, *faults: Fault, rack: int = 8, nvlink: int = 1, **more: object) -> World:
    names, topology = cluster(nodes, rack=rack, nvlink=nvlink)
    return World(names, topology, faults, **more)  # type: ignore[arg-type]


def planner(faulty: World, limits: Limits | None = None, evidence: Evidence | None = None) -> Isolation:
    first = faulty.first(faulty.names)
    assert first.outcome == "failed"
    return Isolation(faulty.names, faulty.topology, limits or Limits(), evidence or Evidence(), faulty.case(), first)


def run_all(searching: Isolation, faulty: World) -> Findings:
    while not searching.done:
        probes = searching.ready()
        assert probes or searching.done
        for probe in probes:
            searching.record(probe, faulty.run(probe))
    return searching.findings


def suspects(findings: Findings) -> list[str]:
    return [suspect.node for suspect in findings.suspects]


# Probes


def test_a_failing_part_goes_on_while_its_siblings_still_run() -> None:
    faulty = world(64, Fault("node", "node-017"))
    searching = planner(faulty)
    first = searching.ready()
    assert len(first) == 16
    held = [probe for probe in first if "node-017" not in probe.nodes]
    for probe in first:
        if probe not in held:
            searching.record(probe, faulty.run(probe))
    searching.record(held[0], faulty.run(held[0]))
    more = searching.ready(held[1:])
    assert more
    assert {node for probe in more for node in probe.nodes} & {"node-016", "node-017", "node-018", "node-019"}


def test_a_hanging_probe_holds_its_own_nodes_only() -> None:
    faulty = world(64, Fault("node", "node-017"))
    searching = planner(faulty)
    hanging: list[Probe] = []
    for _ in range(40):
        for probe in searching.ready(hanging):
            if "node-060" in probe.nodes and not hanging:
                hanging.append(probe)
            else:
                searching.record(probe, faulty.run(probe))
    assert not searching.done
    assert suspects(searching.findings) == ["node-017"]
    searching.stop("deadline")
    assert suspects(searching.findings) == ["node-017"]
    assert searching.findings.verdict == "inconclusive"


def test_other_probes_of_the_driver_keep_their_nodes() -> None:
    faulty = world(64, Fault("node", "node-017"))
    searching = planner(faulty)
    foreign = Probe(-1, ("node-000", "node-001"))
    nodes = {node for probe in searching.ready([foreign]) for node in probe.nodes}
    assert nodes
    assert nodes.isdisjoint(foreign.nodes)


def test_no_probe_is_smaller_than_the_minimum_but_a_run_alone() -> None:
    faulty = world(23, Fault("node", "node-003"))
    cost = isolate(faulty, faulty.names, Limits(min_group=4))
    assert cost is not None
    assert all(len(probe.nodes) >= 4 or probe.purpose == "alone" for probe in cost.probes)


def test_parts_follow_the_topology() -> None:
    faulty = world(64, Fault("node", "node-017"))
    first = planner(faulty, Limits(max_concurrent=8)).ready()
    assert [probe.nodes for probe in first] == [faulty.names[start : start + 8] for start in range(0, 64, 8)]


def test_suspects_fail_with_a_near_and_a_far_partner() -> None:
    faulty = world(64, Fault("node", "node-017"))
    findings = search(faulty)
    assert findings is not None
    partners = [
        node
        for record in findings.probes
        if record.probe.purpose in ("pin", "confirm") and record.result.outcome == "failed"
        for node in record.probe.nodes
        if node != "node-017"
    ]
    leaves = {faulty.topology.places[node].path for node in partners}
    assert len(leaves) == 2
    assert faulty.topology.places["node-017"].path in leaves


def test_a_suspect_fails_once_with_nothing_else_in_its_leaf() -> None:
    faulty = world(64, *(Fault("node", f"node-0{index}") for index in (16, 17, 18, 19)))
    findings = search(faulty)
    assert findings is not None
    for node in suspects(findings):
        assert any(
            record.alone and record.probe.about == (node,) and record.result.outcome == "failed"
            for record in findings.probes
        ), node


def test_a_node_that_fails_only_while_its_leaf_is_busy_is_not_accused() -> None:
    class Crowded(World):
        """Nodes 16 … 19 fail whenever several probes run in their leaf, and pass when nothing else does."""

        crowded = False

        def run(self, probe: Probe) -> Result:
            if self.crowded and leaf & set(probe.nodes):
                return Result("failed", 20.0, 45.0)
            return super().run(probe)

    names, topology = cluster(64)
    leaf = set(names[16:20])
    world_ = Crowded(names, topology)
    searching = Isolation(names, topology, Limits(), Evidence(), world_.case(), Result("failed", 20.0, 45.0))
    while not searching.done:
        probes = searching.ready()
        world_.crowded = sum(1 for probe in probes if set(names[16:24]) & set(probe.nodes)) > 1
        for probe in probes:
            searching.record(probe, world_.run(probe))
    findings = searching.findings
    assert suspects(findings) == []
    assert {findings.nodes[node].standing for node in leaf} == {"inconclusive"}
    assert any("the leaf may be overloaded" in sentence for sentence in findings.story)


def test_a_quiet_probe_waits_until_its_leaf_is_empty_and_keeps_it_so() -> None:
    names, topology = cluster(16)
    mapped = Map(names, topology)
    limits = Limits()
    scheduler = Scheduler(mapped, Ledger(mapped, Case(), Evidence()), limits, 2)
    told: list[str] = []

    def one(nodes: tuple[str, ...], purpose: str, *, quiet: bool = False) -> Steps[None]:
        yield Ask(nodes, purpose, quiet=quiet)
        told.append(purpose)
        if purpose == "early":
            yield Ask(names[6:8], "after")

    def root() -> Steps[None]:
        yield Join(
            [
                one(names[:2], "early"),
                one(names[2:4], "quiet", quiet=True),
                one(names[4:6], "late"),
                one(names[8:10], "elsewhere"),
            ]
        )

    scheduler.start(root())
    started = scheduler.ready([])
    assert [probe.purpose for probe in started] == ["early", "late", "elsewhere"]
    for probe in started[:2]:
        scheduler.settle(probe, Result("passed"), "passed")
    quiet = scheduler.ready([])
    assert [probe.purpose for probe in quiet] == ["quiet"], "nothing else in its leaf, whoever waits"
    scheduler.settle(quiet[0], Result("failed"), "failed")
    assert [probe.purpose for probe in scheduler.ready([])] == ["after"]


def test_a_leaf_of_which_nobody_is_proven_is_asked_for_by_any_two_of_its_members() -> None:
    faults = [Fault("boundary", between=("rack-1", f"rack-{other}")) for other in range(128) if other != 1]
    findings = search(world(512, *faults, rack=4), limits=Limits(max_concurrent=64))
    assert findings is not None
    assert findings.suspects == ()
    assert [domain.name for domain in findings.domains] == ["rack-1"]


def test_one_probe_at_a_time_uses_nvlink_in_a_domain() -> None:
    faulty = world(36, Fault("nvlink", "node-020"), rack=9, nvlink=9, switch=True)
    findings = search(faulty)  # the harness checks the domains of what runs together
    assert findings is not None
    assert suspects(findings) == ["node-020"]


def test_a_probe_that_is_not_out_is_refused() -> None:
    faulty = world(16, Fault("node", "node-003"))
    searching = planner(faulty)
    probe = searching.ready()[0]
    searching.record(probe, Result("passed"))
    with pytest.raises(ValueError, match="not out"):
        searching.record(probe, Result("passed"))


def test_an_empty_group_is_refused() -> None:
    faulty = world(4)
    with pytest.raises(ValueError, match="empty"):
        Isolation((), faulty.topology, Limits(), Evidence(), faulty.case(), Result("failed"))


# Outcomes that prove nothing


def test_an_invalid_probe_is_run_once_more_and_is_never_evidence() -> None:
    faulty = world(64, Fault("node", "node-017"), Fault("unschedulable", "node-050"))
    first = Result("failed", 20.0, 45.0)
    searching = Isolation(faulty.names, faulty.topology, Limits(), Evidence(), faulty.case(), first)
    findings = run_all(searching, faulty)
    assert suspects(findings) == ["node-017"]
    assert findings.nodes["node-050"].standing == "inconclusive"
    assert findings.nodes["node-051"].standing == "cleared"
    runs = [record.probe.nodes for record in findings.probes if record.result.outcome == "invalid"]
    assert max(runs.count(nodes) for nodes in runs) == 2


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        (["passed"], "passed"),
        (["failed"], "failed"),
        (["unclear"], None),
        (["unclear", "passed"], None),
        (["unclear", "unclear"], None),
        (["unclear", "failed"], "failed"),
        (["unclear", "passed", "passed"], "passed"),
        (["unclear", "passed", "unclear"], "unclear"),
        (["unclear", "unclear", "unclear"], "unclear"),
    ],
)
def test_the_grey_band_is_repeated_and_proves_nothing(outcomes: Sequence[str], told: str | None) -> None:
    assert weigh(outcomes) == told


def test_a_lost_node_is_lost_and_the_search_goes_on_without_it() -> None:
    faulty = world(64, Fault("node", "node-017"), vanishing="node-018", vanishes_at=2)
    findings = search(faulty)
    assert findings is not None
    assert suspects(findings) == ["node-017"]
    assert findings.lost == ("node-018",)
    assert findings.nodes["node-018"].standing == "lost"
    again = [record.probe.about for record in findings.probes if record.probe.purpose == "split"]
    assert ("node-016", "node-017", "node-019") in again, "the part runs again without the lost node"
    late = [record.probe for record in findings.probes if record.probe.round > 2]
    assert all("node-018" not in probe.nodes for probe in late)


def test_a_group_that_fails_only_because_a_node_was_lost_accuses_nobody() -> None:
    faulty = world(16)
    first = Result("failed", lost=("node-003",), reason="Lost")
    searching = Isolation(faulty.names, faulty.topology, Limits(), Evidence(), faulty.case(), first)
    findings = run_all(searching, faulty)
    assert findings.suspects == ()
    assert findings.lost == ("node-003",)
    assert findings.verdict == "lost"
    assert findings.transient == ""
    assert findings.headline() == "lost: node-003"
    assert findings.certified_rest is not None


# Nothing unexplained is called passed


def test_the_rest_must_pass_without_the_suspects() -> None:
    findings = search(world(64, Fault("node", "node-017")))
    assert findings is not None
    assert findings.certified_rest is not None
    assert len(findings.certified_rest.nodes) == 63
    assert "node-017" not in findings.certified_rest.nodes
    assert findings.story[-1].startswith("The other 63 nodes passed together")


def test_a_link_that_a_bad_node_hid_is_found_when_the_rest_still_fails() -> None:
    faulty = world(
        64, Fault("node", "node-017"), Fault("link", between=("node-001", "node-050"), factor=0.3), traffic="all-pairs"
    )
    findings = search(faulty)
    assert findings is not None
    assert suspects(findings) == ["node-017"]
    assert [link.between for link in findings.links] == [("node-001", "node-050")]


def test_a_rest_that_fails_without_any_part_failing_is_never_called_passed() -> None:
    faulty = world(16)

    class Odd(World):
        """Fails whenever nodes 0, 5 and 10 are together: no pair of them does."""

        def run(self, probe: Probe) -> Result:
            return Result("failed" if {"node-000", "node-005", "node-010"} <= set(probe.nodes) else "passed", 1.0, 2.0)

    odd = Odd(faulty.names, faulty.topology)
    findings = run_all(planner(odd), odd)
    assert findings.suspects == ()
    assert findings.links == ()
    assert findings.verdict in ("inconclusive", "scale")
    assert findings.certified_rest is None
    assert not findings.headline().startswith("suspects")


def test_two_links_are_both_found() -> None:
    links = (("node-001", "node-050"), ("node-020", "node-033"))
    findings = search(world(64, *(Fault("link", between=ends) for ends in links), traffic="all-pairs"))
    assert findings is not None
    assert tuple(link.between for link in findings.links) == links


def test_a_boundary_is_seen_by_its_quadrants_before_any_pair_of_nodes_is_tried() -> None:
    findings = search(world(128, Fault("boundary", between=("rack-3", "rack-12")), traffic="all-pairs"))
    assert findings is not None
    assert [link.between for link in findings.links] == [("rack-12", "rack-3")]
    failing = [record.probe for record in findings.probes if record.result.outcome == "failed"]
    assert min(len(probe.nodes) for probe in failing) == 8


def test_a_pair_that_fails_by_chance_of_the_partner_is_traced_to_the_boundary_of_their_leaves() -> None:
    def faulty(*more: Fault) -> World:
        return world(512, Fault("node", "node-009"), *more, traffic="all-pairs")

    plain = search(faulty(), limits=Limits(max_concurrent=64))
    assert plain is not None
    pins = [record.probe for record in plain.probes if record.probe.purpose == "pin" and len(record.probe.nodes) == 2]
    partner = next(node for probe in pins if probe.about == ("node-012",) for node in probe.nodes if node != "node-012")
    other = faulty().topology.places[partner].path[-1]
    assert other != "rack-1"
    findings = search(faulty(Fault("boundary", between=("rack-1", other))), limits=Limits(max_concurrent=64))
    assert findings is not None
    assert suspects(findings) == ["node-009"]
    assert [set(link.between) for link in findings.links] == [{"rack-1", other}]


def test_a_failure_with_one_partner_only_is_traced_to_the_link_at_once() -> None:
    def faulty(*more: Fault) -> World:
        return world(512, Fault("node", "node-009"), *more, traffic="all-pairs")

    plain = search(faulty(), limits=Limits(max_concurrent=64))
    assert plain is not None
    pins = [record.probe for record in plain.probes if record.probe.purpose == "pin" and len(record.probe.nodes) == 2]
    partner = next(node for probe in pins if probe.about == ("node-012",) for node in probe.nodes if node != "node-012")
    findings = search(faulty(Fault("link", between=("node-012", partner))), limits=Limits(max_concurrent=64))
    assert findings is not None
    assert suspects(findings) == ["node-009"]
    assert [link.between for link in findings.links] == [("node-012", partner)]
    certified = [record.result.outcome for record in findings.probes if record.probe.purpose == "certify"]
    assert set(certified) == {"passed"}


def test_with_one_lane_the_halves_left_over_give_the_partners() -> None:
    findings = search(world(64, Fault("node", "node-000")), limits=Limits(max_concurrent=1))
    assert findings is not None
    assert suspects(findings) == ["node-000"]
    assert "mixed" not in {record.probe.purpose for record in findings.probes}


class Scripted(World):
    """The pins of node 17 tell what the script says, one after the other; then they pass."""

    script: Sequence[str] = ()

    def run(self, probe: Probe) -> Result:
        if "node-017" in probe.nodes and probe.purpose == "split":
            return Result("failed", 20.0, 45.0)
        if "node-017" in probe.nodes and len(probe.nodes) == 2:
            told, *rest = self.script or ("passed",)
            self.script = rest
            return Result("failed" if told == "failed" else "passed", 20.0 if told == "failed" else 45.0, 45.0)
        return super().run(probe)


def scripted(*script: str, faults: tuple[Fault, ...] = ()) -> Findings:
    names, topology = cluster(64)
    acting = Scripted(names, topology, faults)
    acting.script = script
    first = Result("failed", 20.0, 45.0)
    return run_all(Isolation(names, topology, Limits(), Evidence(), acting.case(), first), acting)


def test_the_members_of_a_small_failing_set_are_pinned_twice_before_more_is_made_of_it() -> None:
    findings = scripted("passed", "failed", "failed", "failed", faults=(Fault("node", "node-017"),))
    assert suspects(findings) == ["node-017"]
    assert "repeat" not in {record.probe.purpose for record in findings.probes}


def test_a_pair_that_has_passed_together_is_not_taken_for_a_link() -> None:
    script = ("passed", "failed", "passed", "passed", "failed")
    findings = scripted(*script)
    assert findings.links == ()
    assert findings.suspects == ()
    assert any("comes and goes" in sentence for sentence in findings.story)


def test_beside_what_comes_and_goes_the_rest_must_pass_twice() -> None:
    seen = 0
    for seed in range(40):
        findings = search(world(32, Fault("intermittent", "node-009", probability=0.3), seed=seed))
        if findings is not None and any(suspect.kind == "intermittent" for suspect in findings.suspects):
            certify = [record.result.outcome for record in findings.probes if record.probe.purpose == "certify"]
            assert certify[-2:] == ["passed", "passed"]
            seen += 1
    assert seen


def test_crossings_of_large_sets_use_what_the_last_one_implies() -> None:
    for first in range(10):
        ends = (f"node-{first * 11:03d}", f"node-{250 - first:03d}")
        faulty = world(256, Fault("link", between=ends), traffic="all-pairs")
        cost = isolate(faulty, faulty.names, Limits())
        assert cost is not None
        assert cost.node_runs <= 6.1 * 256


def test_a_leaf_of_one_node_against_a_leaf_of_many_is_their_boundary() -> None:
    leaves = [["n0"], ["n1", "n2", "n3", "n4"], ["n5", "n6", "n7"], ["n8", "n9", "n10"]]
    places = {node: Place((f"leaf-{number}",)) for number, nodes in enumerate(leaves) for node in nodes}
    names = tuple(places)
    faulty = World(names, Topology(places), (Fault("boundary", between=("leaf-0", "leaf-1")),), traffic="all-pairs")
    findings = search(faulty)
    assert findings is not None
    assert [(link.between, link.level) for link in findings.links] == [(("leaf-0", "leaf-1"), "leaf")]


def test_a_node_that_hides_in_parts_is_not_taken_for_a_link() -> None:
    class Shy(World):
        """Node 3 fails in large groups and in pairs, never in the parts of a split."""

        def run(self, probe: Probe) -> Result:
            if probe.purpose in ("split", "repeat") and len(probe.nodes) < len(self.names):
                return Result("passed", 45.0, 45.0)
            return super().run(probe)

    names, topology = cluster(32)
    shy = Shy(names, topology, (Fault("node", "node-003"),))
    findings = run_all(planner(shy), shy)
    assert findings.links == ()
    assert suspects(findings) == ["node-003"]


def test_a_failure_of_everything_is_seen_before_the_parts_are_split_further() -> None:
    findings = search(world(256, Fault("systemic", factor=0.05)))
    assert findings is not None
    assert {record.probe.round for record in findings.probes if record.probe.purpose == "split"} == {1}
    assert len(findings.probes) <= 100


def test_size_is_bracketed_and_checked_with_other_nodes() -> None:
    findings = search(world(64, Fault("scale", nodes=23)))
    assert findings is not None
    assert findings.scale is not None
    assert (findings.scale.smallest_failing, findings.scale.largest_passing) == (23, 22)
    assert "fail as well" in findings.scale.note
    assert findings.verdict == "scale"


def test_cleared_nodes_say_which_faults_would_have_been_missed() -> None:
    findings = search(world(64, Fault("node", "node-017")))
    assert findings is not None
    told = findings.nodes["node-000"]
    assert told.standing == "cleared"
    assert f"{1 - 0.05 ** (1 / (4 * told.passes)):.0%}" in told.evidence[0]


# Limits


@pytest.mark.parametrize("most", [0, 1, 5, 17, 20])
def test_the_limit_of_probes_ends_with_the_smallest_implicated_set(most: int) -> None:
    findings = search(world(64, Fault("node", "node-017")), limits=Limits(max_probes=most))
    assert findings is not None
    assert len(findings.probes) <= most
    assert findings.verdict == "inconclusive"
    assert f"{most} probes" in findings.limit
    assert findings.headline().startswith("inconclusive: limit of") or "inconclusive: limit of" in findings.headline()
    if not findings.suspects:
        assert any("node-017" in group for group in findings.sets)
    assert len(findings.sets[0]) <= (64 if most < 17 else 4) if findings.sets else True


def test_the_limit_of_node_seconds_ends_the_search() -> None:
    findings = search(world(64, Fault("node", "node-017")), limits=Limits(max_node_seconds=64 * 60.0))
    assert findings is not None
    assert "node-seconds" in findings.limit
    assert {len(group) for group in findings.sets} == {4}
    assert "node-017" in findings.sets[0]


def test_a_stop_in_the_middle_keeps_what_is_known() -> None:
    faulty = world(64, Fault("node", "node-017"))
    searching = planner(faulty)
    probes = searching.ready()
    for probe in probes[:-1]:
        searching.record(probe, faulty.run(probe))
    searching.stop("deadline")
    assert searching.done
    searching.record(probes[-1], Result("invalid"))
    assert searching.ready() == []
    assert searching.findings.limit == "deadline"
    assert searching.findings.verdict == "inconclusive"
    assert searching.findings.sets == (frozenset({"node-016", "node-017", "node-018", "node-019"}),)


# Where nodes stand


def test_cuts_prefer_the_highest_boundary_near_the_middle() -> None:
    places = {f"n{index}": Place((f"block-{index // 6}", f"rack-{index // 3}")) for index in range(11)}
    mapped = Map(places, Topology(places))
    nodes = mapped.order(places)
    assert [len(part) for part in mapped.cut(nodes, 2)] == [6, 5]
    assert [len(part) for part in mapped.cut(nodes, 4)] == [3, 3, 3, 2]
    assert [len(part) for part in mapped.cut(nodes, 11)] == [1] * 11
    assert all(len(part) >= 3 for part in mapped.cut(nodes, 5, 3))


def test_order_reads_numbers_in_names_as_numbers() -> None:
    names = ["node-10", "node-9", "node-1"]
    assert Map(names, Topology()).order(names) == ("node-1", "node-9", "node-10")


def test_a_side_of_a_boundary_has_the_name_of_its_smallest_domain() -> None:
    places = {f"n{index}": Place((f"block-{index // 8}", f"rack-{index // 4}")) for index in range(16)}
    mapped = Map(places, Topology(places, ("block", "rack")))
    around = mapped.around(["n0", "n1"], ["n4"])
    assert around is not None
    assert (around.name, around.level) == ("rack-0", "rack")
    wider = mapped.around(["n0", "n5"], ["n8"])
    assert wider is not None
    assert (wider.name, wider.level) == ("block-0", "block")
    assert mapped.around(["n0", "n5"], ["n2"]) is None


def test_the_variant_says_which_layers_a_probe_shows() -> None:
    names, topology = cluster(8, nvlink=4)
    mapped = Map(names, topology)
    off = replace(Probe(1, ()).variant, mnnvl=False)
    on = Probe(1, ()).variant
    assert mapped.shows(names[:2], off)["node-000"] == {"node", "fabric"}
    assert mapped.shows(names[:2], on)["node-000"] == {"node", "scale-up"}
    assert mapped.shows((names[0], names[4]), on)["node-000"] == {"node", "fabric"}
    assert mapped.shows((*names[:2], names[4]), on) == {
        "node-000": {"node", "fabric", "scale-up"},
        "node-001": {"node", "fabric", "scale-up"},
        "node-004": {"node", "fabric"},
    }
