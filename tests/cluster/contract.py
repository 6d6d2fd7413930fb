"""What every cluster promises, whatever it is made of: one suite, run against each kind through a `Lab`.

A lab makes a cluster of at least four healthy nodes and the workloads that show one thing each; a kind of cluster that
cannot show something says so with `can`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Protocol

import pytest

from cluster import Cluster, ClusterError, Run, RunState, Stop, Workload, topology_order


class Lab(Protocol):
    """One kind of cluster, ready to be tested."""

    can: frozenset[str]
    """Of `slow` (a run that takes long enough to be stopped in the middle)."""

    def cluster(self, fault: str = "", node: str = "") -> Cluster:
        """A cluster of at least four nodes; `fault` is `crash` or `hang` and sits on `node`."""

    def workload(self, nodes: Sequence[str], name: str = "contract", fault: str = "", node: str = "") -> Workload:
        """What to run on it, for a cluster with that fault; with fault `slow` it takes long."""

    def processes(self) -> list[str]:
        """What is left of anything that was started."""


def quiet(_line: str) -> None:
    """Progress that nobody looks at."""


def first_failing(run: Run) -> str:
    return min((exit_ for exit_ in run.exits if exit_.code), key=lambda exit_: exit_.at).node


class ClusterContract:
    """Subclass it with a `lab` fixture."""

    @pytest.fixture
    def cluster(self, lab: Lab) -> Cluster:
        return lab.cluster()

    @pytest.fixture
    def names(self, cluster: Cluster) -> list[str]:
        return [node.name for node in cluster.nodes().nodes]

    def test_is_a_cluster(self, cluster: Cluster) -> None:
        assert isinstance(cluster, Cluster)
        assert cluster.name

    def test_nodes_are_the_same_each_time_and_in_topology_order(self, cluster: Cluster) -> None:
        nodes = cluster.nodes().nodes
        assert len(nodes) >= 4
        assert len({node.name for node in nodes}) == len(nodes)
        assert nodes == topology_order(nodes)
        assert cluster.nodes() == cluster.nodes()

    def test_a_good_run_has_every_exit_in_rank_order_and_the_whole_log(
        self, lab: Lab, cluster: Cluster, names: list[str]
    ) -> None:
        said: list[str] = []
        workload = lab.workload(names[:3])
        run = cluster.run(workload, Stop(), said.append)
        assert run.state is RunState.SUCCEEDED, run.message
        assert run.workload is workload
        assert [exit_.rank for exit_ in run.exits] == list(range(workload.world_size))
        assert [exit_.node for exit_ in run.exits] == [workload.node_of(rank) for rank in range(workload.world_size)]
        assert {exit_.code for exit_ in run.exits} == {0}
        lines = run.log.decode().splitlines()
        rows = [index for index, line in enumerate(lines) if re.match(r"\s+\d+\s+\d+\s+float", line)]
        assert len(rows) >= 2
        assert any(line.startswith("#") for line in lines[: rows[0]])
        assert len([line for line in lines[rows[-1] :] if line.startswith("CLUSTERPROOF-RESULT {")]) == 1
        assert said
        assert not run.events
        assert not run.leftovers
        assert not run.tails
        assert run.ended >= run.started
        assert all(seconds >= 0 for seconds in run.durations.values())

    def test_ranks_follow_the_order_of_the_workload(self, lab: Lab, cluster: Cluster, names: list[str]) -> None:
        backwards = names[2::-1]
        run = cluster.run(lab.workload(backwards), Stop(), quiet)
        assert list(dict.fromkeys(exit_.node for exit_ in run.exits)) == backwards

    def test_one_node_alone_can_run(self, lab: Lab, cluster: Cluster, names: list[str]) -> None:
        assert cluster.run(lab.workload(names[:1]), Stop(), quiet).state is RunState.SUCCEEDED

    def test_a_crash_fails_the_run_and_its_node_is_the_first_to_fail(self, lab: Lab, names: list[str]) -> None:
        bad = names[1]
        cluster = lab.cluster("crash", bad)
        run = cluster.run(lab.workload(names[:3], fault="crash", node=bad), Stop(), quiet)
        assert run.state is RunState.FAILED
        assert first_failing(run) == bad
        assert bad in run.tails
        assert run.log
        assert not run.leftovers

    def test_a_hang_is_a_stall_and_no_exit_accuses_anybody(self, lab: Lab, names: list[str]) -> None:
        bad = names[1]
        cluster = lab.cluster("hang", bad)
        run = cluster.run(lab.workload(names[:3], fault="hang", node=bad), Stop(), quiet)
        assert run.state is RunState.STALLED
        assert not [exit_ for exit_ in run.exits if exit_.code]
        assert not run.leftovers
        assert not lab.processes()

    def test_a_fault_outside_the_group_changes_nothing(self, lab: Lab, names: list[str]) -> None:
        bad = names[3]
        cluster = lab.cluster("crash", bad)
        run = cluster.run(lab.workload(names[:3], fault="crash", node=bad), Stop(), quiet)
        assert run.state is RunState.SUCCEEDED

    def test_a_stop_that_is_set_already_starts_nothing(self, lab: Lab, cluster: Cluster, names: list[str]) -> None:
        stop = Stop()
        stop.set("deadline of 10m reached")
        run = cluster.run(lab.workload(names[:2]), stop, quiet)
        assert run.state is RunState.CANCELLED
        assert "deadline of 10m reached" in run.message
        assert not run.exits
        assert not lab.processes()

    def test_a_stop_in_the_middle_cancels_and_leaves_nothing(
        self, lab: Lab, cluster: Cluster, names: list[str]
    ) -> None:
        if "slow" not in lab.can:
            pytest.skip("this cluster answers at once: there is no middle")
        stop = Stop()
        workload = lab.workload(names[:2], fault="slow")
        run = cluster.run(workload, stop, lambda line: stop.set("Ctrl-C") if line.startswith("running") else None)
        assert run.state is RunState.CANCELLED
        assert run.message.startswith("Ctrl-C")
        assert not [exit_ for exit_ in run.exits if exit_.code]
        assert not run.leftovers
        assert not lab.processes()

    def test_an_unknown_node_is_refused_by_name(self, lab: Lab, cluster: Cluster, names: list[str]) -> None:
        with pytest.raises(ClusterError, match="node-that-is-not-there"):
            cluster.run(lab.workload([names[0], "node-that-is-not-there"]), Stop(), quiet)

    def test_a_program_that_cannot_be_started_is_a_failed_launch(
        self, lab: Lab, cluster: Cluster, names: list[str]
    ) -> None:
        workload = lab.workload(names[:2], fault="absent")
        run = cluster.run(workload, Stop(), quiet)
        assert run.state is RunState.LAUNCH_FAILED
        assert run.message
        assert not [exit_ for exit_ in run.exits if exit_.code]

    def test_disjoint_runs_side_by_side_do_not_meet(self, lab: Lab, cluster: Cluster, names: list[str]) -> None:
        groups = [names[:2], names[2:4]]
        runs: dict[int, Run] = {}

        def go(index: int) -> None:
            runs[index] = cluster.run(lab.workload(groups[index], name=f"contract-{index}"), Stop(), quiet)

        threads = [threading.Thread(target=go, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index, group in enumerate(groups):
            assert runs[index].state is RunState.SUCCEEDED, runs[index].message
            assert list(dict.fromkeys(exit_.node for exit_ in runs[index].exits)) == group
            assert not [name for name in groups[1 - index] if name in runs[index].log.decode()]

    def test_closing_twice_is_no_harm(self, cluster: Cluster) -> None:
        cluster.close()
        cluster.close()
