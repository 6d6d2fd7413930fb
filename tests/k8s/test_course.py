"""How a run ended, from what was seen of its pods: every reason its own, and a node accused only with evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster import RunState
from k8s.course import SETTLE_S, TROUBLE_S, Course, Ending
from k8s.pods import informative
from tests.k8s.things import RUNNING, ended, pod, waiting, workload

TWO = workload("n1", "n2", start_limit_s=60, time_limit_s=120)


def at(course: Course, now: float, *pods: Any, root: Any = None) -> Ending | None:
    return course.see(pods, root, now)


def note(exits: dict[str, int], ends: dict[str, float] | None = None) -> str:
    return json.dumps({"exits": exits, "ends": ends or {}, "bytes": 1, "sha256": "0"})


def test_all_pods_done_without_error_is_success() -> None:
    course = Course(TWO, 0.0)
    assert at(course, 1, pod("a", "n1", state=RUNNING), pod("b", "n2", state=RUNNING)) is None
    ending = at(course, 9, pod("a", "n1", state=ended(0)), pod("b", "n2", state=ended(0)))
    assert ending is not None
    assert ending.state is RunState.SUCCEEDED


def test_one_pod_done_is_not_yet_success() -> None:
    assert at(Course(TWO, 0.0), 9, pod("a", "n1", state=ended(0)), pod("b", "n2", state=RUNNING)) is None
    assert at(Course(TWO, 0.0), 9, pod("a", "n1", state=ended(0))) is None


def test_a_completed_pod_that_is_failed_later_stays_completed() -> None:
    course = Course(TWO, 0.0)
    at(course, 1, pod("a", "n1", state=ended(0), phase="Succeeded"), pod("b", "n2", state=RUNNING))
    later = pod("a", "n1", phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed")
    ending = at(course, 2, later, pod("b", "n2", state=ended(0)))
    assert ending is not None
    assert ending.state is RunState.SUCCEEDED


def test_the_others_get_a_moment_after_the_first_failure() -> None:
    course = Course(TWO, 0.0)
    pods = (pod("a", "n1", state=ended(3, note=note({"0": 3}))), pod("b", "n2", state=RUNNING))
    assert at(course, 10, *pods) is None
    assert at(course, 10 + SETTLE_S / 2, *pods) is None
    ending = at(course, 11 + SETTLE_S, *pods)
    assert ending is not None
    assert (ending.state, ending.message) == (RunState.FAILED, "rank 0 exited with code 3 on n1")


def test_the_first_failure_is_told_by_milliseconds_and_by_the_kernel() -> None:
    early = pod("a", "n1", state=ended(1, note=note({"0": 1}, {"0": 100.1})))
    late = pod("b", "n2", state=ended(1, note=note({"1": 1}, {"1": 100.2})))
    killed = pod("b", "n2", state=ended(137, "OOMKilled", note=note({"1": -9}, {"1": 100.3})))
    ending = at(Course(TWO, 0.0), 1, late, early)
    assert ending is not None
    assert "on n1" in ending.message
    ending = at(Course(TWO, 0.0), 1, early, killed)
    assert ending is not None
    assert ending.message.startswith("rank 1 was killed by signal 9 (OOMKilled) on n2")


@pytest.mark.parametrize("reason", ["Evicted", "Preempting"])
def test_a_pod_that_was_taken_away_accuses_nobody(reason: str) -> None:
    gone = pod("a", "n1", phase="Failed", reason=reason, message="The node was low on resource")
    ending = at(Course(TWO, 0.0), 1, gone, pod("b", "n2", state=RUNNING))
    assert ending is not None
    assert ending.state is RunState.LOST
    assert [event.kind for event in ending.events] == ["invalid"]


def test_disruption_and_deletion_by_others_are_lost() -> None:
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "prio"}
    for bad in (
        pod("a", "n1", state=ended(143), conditions=[disruption]),
        pod("a", "n1", state=RUNNING, leaving=True),
    ):
        ending = at(Course(TWO, 0.0), 1, bad, pod("b", "n2", state=RUNNING))
        assert ending is not None
        assert ending.state is RunState.LOST


def test_a_kubelet_that_lost_a_gpu_is_hardware_evidence_and_stale_devices_are_not() -> None:
    lost = "Allocate failed due to device plugin GetPreferredAllocation rpc failed: error getting NVML: GPU is lost"
    stale = (
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"
    )
    states = []
    for words in (lost, stale):
        bad = pod("a", "n1", phase="Failed", reason="UnexpectedAdmissionError", message=words)
        ending = at(Course(TWO, 0.0), 1, bad, pod("b", "n2", state=RUNNING))
        assert ending is not None
        states.append((ending.state, [event.node for event in ending.events]))
    assert states == [(RunState.UNHEALTHY, ["n1"]), (RunState.LAUNCH_FAILED, [])]


def test_pods_not_placed_in_time_say_why_and_where() -> None:
    course = Course(TWO, 0.0)
    words = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu."
    stuck = pod(
        "b", conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]
    )
    assert at(course, 59, pod("a", "n1", state=RUNNING), stuck) is None
    ending = at(course, 61, pod("a", "n1", state=RUNNING), stuck)
    assert ending is not None
    assert ending.state is RunState.UNSCHEDULABLE
    assert words in ending.message
    assert "none on n2" in ending.message


def test_the_informative_words_win_over_empty_talk() -> None:
    full = "0/8 nodes are available: 3 Insufficient nvidia.com/gpu, 5 node(s) had untolerated taint(s)."
    assert (
        informative(["optimistic rejection in PostFilter", full, "rejected due to timeout after waiting 10s"]) == full
    )
    assert informative([]) == ""


def test_a_long_pull_is_not_unschedulable() -> None:
    course = Course(TWO, 0.0)
    pulling = (pod("a", "n1", state=waiting("ContainerCreating")), pod("b", "n2", state=waiting("ContainerCreating")))
    assert at(course, 50, *pulling) is None
    assert at(course, 100, *pulling) is None, "the limit of pulling begins when all pods are placed"
    assert "pulling" in course.phase
    ending = at(course, 111, *pulling)
    assert ending is not None
    assert ending.state is RunState.LAUNCH_FAILED


def test_a_failed_pull_may_be_a_hiccup_and_then_it_is_not() -> None:
    course = Course(TWO, 0.0)
    bad = pod("a", "n1", state=waiting("ImagePullBackOff", "manifest unknown"))
    good = pod("b", "n2", state=RUNNING)
    assert at(course, 1, bad, good) is None
    ending = at(course, 2 + TROUBLE_S, bad, good)
    assert ending is not None
    assert ending.state is RunState.LAUNCH_FAILED
    assert "n1 (1 of 2 nodes): manifest unknown" in ending.message


def test_an_impossible_image_name_is_not_waited_for() -> None:
    ending = at(Course(TWO, 0.0), 1, pod("a", "n1", state=waiting("InvalidImageName", "no such form")))
    assert ending is not None
    assert ending.state is RunState.LAUNCH_FAILED


def test_refused_pods_end_the_run_with_the_admission_words_and_a_quota_may_free_itself() -> None:
    course = Course(TWO, 0.0)
    course.refused = "pods is forbidden: exceeded quota"
    assert at(course, 10) is None
    ending = at(course, 61)
    assert ending is not None
    assert ending.state is RunState.LAUNCH_FAILED
    course = Course(TWO, 0.0, refused="violates PodSecurity")
    ending = at(course, 6)
    assert ending is not None
    assert "violates PodSecurity" in ending.message


def test_a_command_that_no_image_has_is_a_launch_failure_and_on_one_node_that_nodes() -> None:
    no_command = json.dumps({"exits": {}, "bytes": 0, "sha256": "", "what": "cannot start 'x' in this image"})
    both = (pod("a", "n1", state=ended(127, note=no_command)), pod("b", "n2", state=ended(127, note=no_command)))
    ending = at(Course(TWO, 0.0), 1, *both)
    assert ending is not None
    assert ending.state is RunState.LAUNCH_FAILED
    ending = at(Course(TWO, 0.0), 1, both[0], pod("b", "n2", state=ended(0)))
    assert ending is not None
    assert (ending.state, "on n1" in ending.message) == (RunState.FAILED, True)


def test_running_time_counts_from_the_moment_all_run() -> None:
    course = Course(TWO, 0.0)
    at(course, 100, pod("a", "n1", state=RUNNING), pod("b", "n2", state=RUNNING))
    assert at(course, 219, pod("a", "n1", state=RUNNING), pod("b", "n2", state=RUNNING)) is None
    ending = at(course, 221, pod("a", "n1", state=ended(0)), pod("b", "n2", state=RUNNING))
    assert ending is not None
    assert ending.state is RunState.TIMED_OUT
    assert ending.message.endswith("still running: n2")


def test_the_clusters_own_deadline_is_a_time_out() -> None:
    root = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}}
    ending = at(Course(TWO, 0.0), 1, root=root)
    assert ending is not None
    assert ending.state is RunState.TIMED_OUT
