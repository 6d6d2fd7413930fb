"""How runs end in virtual time: crash, silence, lost and unhealthy nodes, pending pods, limits, stop."""

from __future__ import annotations

from typing import Any

from cluster import RunState, Stop
from tests.cluster.simulated.fabrics import cycles, fabric, names, result, run, share, workload

PAIR = names([3, 4])
LONG = 4000.0


def node(effect: str, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": "node", "node": "node-003", "effect": effect, **more}]


def health(at: str) -> dict[str, Any]:
    return {"kind": "health", "node": "node-003", "at": at, "condition": "GpuXidCritical", "message": "Xid 79"}


def test_a_healthy_run_succeeds_with_every_rank_at_0_and_a_whole_log() -> None:
    done = run(fabric(), workload(PAIR))
    assert done.state is RunState.SUCCEEDED
    assert [(each.rank, each.node, each.code) for each in done.exits] == [
        (rank, PAIR[rank // 8], 0) for rank in range(16)
    ]
    assert result(done)["complete"] is True
    assert done.seconds == sum(done.durations.values())


def test_a_crash_fails_the_run_with_its_own_ranks_first() -> None:
    done = run(fabric(faults=node("crash")), workload(names([2, 3, 4])))
    assert done.state is RunState.FAILED
    assert "node-003" in done.message
    assert all(each.code for each in done.exits)
    own = [each.at for each in done.exits if each.node == "node-003"]
    others = [each.at for each in done.exits if each.node != "node-003"]
    assert max(own) < min(others)
    assert list(done.tails) == ["node-003", "node-002", "node-004"]
    assert b"CLUSTERPROOF-RESULT" not in done.log
    assert b'CLUSTERPROOF-ERROR {"schema": "clusterproof.error/v1", "rank": 0, "node": "node-002"' in done.log


def test_nccl_on_rank_0_names_the_crashed_peer_only_where_it_is_its_neighbour() -> None:
    near = run(fabric(faults=node("crash")), workload(names([2, 3, 4, 5])))
    far = run(fabric(faults=node("crash")), workload(names([1, 2, 3, 4, 5])))
    assert b"Connection closed by remote peer node-003" in near.log
    assert b"Connection closed" not in far.log


def test_a_hang_stalls_by_the_limit_and_the_log_stops() -> None:
    done = run(fabric(faults=node("hang")), workload(PAIR, stall_limit_s=200.0, time_limit_s=LONG))
    assert done.state is RunState.STALLED
    assert "200 s" in done.message
    assert all(each.code is None for each in done.exits)
    assert b"out-of-place" in done.log
    assert b"CLUSTERPROOF-RESULT" not in done.log


def test_a_hang_without_stall_detection_ends_at_the_time_limit() -> None:
    done = run(fabric(faults=node("hang")), workload(PAIR, stall_limit_s=LONG, time_limit_s=900.0))
    assert done.state is RunState.TIMED_OUT
    assert done.ended == 902.0


def test_a_hang_with_a_moment_begins_then_and_not_before() -> None:
    cluster = fabric(faults=node("hang", at="1h"))
    before = run(cluster, workload(PAIR))
    assert before.state is RunState.SUCCEEDED
    early, late = fabric(faults=node("hang", at="21s")), fabric(faults=node("hang", at="24s"))
    lengths = [len(run(each, workload(PAIR, options={"maxBytes": "16G"})).log) for each in (early, late)]
    assert lengths[0] < lengths[1]
    soon = fabric(faults=node("hang", at=f"{before.ended + 1}s"))
    assert run(soon, workload(PAIR)).state is RunState.SUCCEEDED
    assert run(soon, workload(PAIR)).state is RunState.STALLED


def test_a_lost_node_ends_its_run_without_an_accusation_and_stays_lost() -> None:
    cluster = fabric(faults=[{"kind": "lost", "node": "node-003", "at": "20.5s"}])
    done = run(cluster, workload(PAIR))
    assert done.state is RunState.LOST
    assert done.ended == 20.5
    assert [(event.node, event.kind, event.at) for event in done.events] == [("node-003", "lost", 20.5)]
    again = run(cluster, workload(PAIR))
    assert (again.state, again.seconds) == (RunState.LOST, 0.0)
    assert run(cluster, workload(names([4, 5]))).state is RunState.SUCCEEDED


def test_a_node_that_turns_unhealthy_stops_its_run_early_with_the_conditions_words() -> None:
    cluster = fabric(faults=[health("20.5s")])
    done = run(cluster, workload(PAIR))
    assert done.state is RunState.UNHEALTHY
    assert [(event.node, event.kind, event.message) for event in done.events] == [
        ("node-003", "health", "GpuXidCritical: Xid 79")
    ]
    assert done.ended == 20.5
    assert b"CLUSTERPROOF-RESULT" not in done.log
    assert run(cluster, workload(PAIR)).state is RunState.UNHEALTHY


def test_what_happens_to_a_node_after_the_run_is_not_in_it() -> None:
    done = run(fabric(faults=[health("2h")]), workload(PAIR))
    assert (done.state, done.events) == (RunState.SUCCEEDED, ())


def test_the_earliest_of_two_ends_the_run_and_both_are_told_when_both_happened() -> None:
    lost = {"kind": "lost", "node": "node-004", "at": "20.2s"}
    first = run(fabric(faults=[health("20.5s"), lost]), workload(PAIR))
    assert (first.state, len(first.events)) == (RunState.LOST, 1)
    cluster = fabric(faults=[health("20.5s"), lost])
    run(cluster, workload(names([3, 5])))
    both = run(cluster, workload(PAIR))
    assert (both.state, len(both.events)) == (RunState.UNHEALTHY, 2)


def test_a_crash_before_a_health_event_is_a_crash() -> None:
    assert run(fabric(faults=[*node("crash"), health("2h")]), workload(PAIR)).state is RunState.FAILED


def test_pods_that_stay_pending_are_unschedulable_in_the_schedulers_words() -> None:
    cluster = fabric(faults=[{"kind": "unschedulable", "node": "node-003"}])
    done = run(cluster, workload(PAIR, start_limit_s=300.0))
    assert done.state is RunState.UNSCHEDULABLE
    assert "0/2 nodes are available: 1 Insufficient nvidia.com/gpu" in done.message
    assert "node-003" in done.message
    assert [(event.node, event.kind) for event in done.events] == [("node-003", "invalid")]
    assert (done.exits, done.log, done.durations["queued"]) == ((), b"", 300.0)


def test_a_transient_fault_spoils_the_entrys_first_runs_and_then_never_again() -> None:
    cluster = fabric(faults=[{"kind": "transient", "case": "nccl-all-reduce", "times": 2}])
    healthy = cycles(run(fabric(), workload(PAIR)))[0]
    other = cycles(run(cluster, workload(PAIR, "nccl-broadcast")))[0]
    first, second, third = (cycles(run(cluster, workload(PAIR)))[0] for _ in range(3))
    assert first == second
    assert first < 0.6 * healthy
    assert third == healthy
    assert other == cycles(run(fabric(), workload(PAIR, "nccl-broadcast")))[0]


def test_a_run_that_never_measured_leaves_the_transient_fault_for_the_next() -> None:
    transient = {"kind": "transient", "case": "nccl-all-reduce"}
    cluster = fabric(faults=[transient, {"kind": "unschedulable", "node": "node-003"}])
    run(cluster, workload(PAIR))
    slow, well = (cycles(run(cluster, workload(names([5, 6]))))[0] for _ in range(2))
    assert slow < 0.6 * well


def test_a_sweep_longer_than_the_time_limit_is_timed_out_with_the_rows_so_far() -> None:
    done = run(fabric(), workload(PAIR, time_limit_s=30.0, options={"numIterations": 100_000}))
    assert done.state is RunState.TIMED_OUT
    assert b"CLUSTERPROOF-RESULT" not in done.log


def test_a_stop_that_was_asked_for_cancels_before_anything_runs() -> None:
    stop = Stop()
    stop.set("deadline of 10 minutes")
    done = fabric().run(workload(PAIR), stop, lambda _line: None)
    assert (done.state, done.message, done.log) == (RunState.CANCELLED, "deadline of 10 minutes", b"")


def test_a_program_without_a_model_is_a_failed_launch_in_words() -> None:
    done = run(fabric(), workload(PAIR, collective="", program="gemm.py"))
    assert done.state is RunState.LAUNCH_FAILED
    assert "gemm.py" in done.message


def test_sizes_that_hold_no_element_a_rank_are_a_failed_launch_in_words() -> None:
    done = run(fabric(), workload(PAIR, "nccl-alltoall", options={"minBytes": 8, "maxBytes": 16}))
    assert done.state is RunState.LAUNCH_FAILED
    assert "maxBytes" in done.message


def test_a_fault_does_not_change_when_a_run_ends() -> None:
    well, sick = fabric(), fabric(faults=node("slow", factor=0.1))
    assert run(well, workload(PAIR)).ended == run(sick, workload(PAIR)).ended
    assert share(node("slow", factor=0.1), workload(PAIR)) == 0.1
