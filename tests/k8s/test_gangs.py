"""Gang schedulers as data: every pod opted in, the group as large as the run."""

from __future__ import annotations

import pytest

from cluster import ClusterError
from k8s import Gang
from k8s.gang import grouping, schedulers, wanted


@pytest.mark.parametrize("name", sorted(schedulers()))
def test_every_shipped_scheduler_fills_its_places(name: str) -> None:
    made = grouping(Gang(name, "my-queue"), "ns", "run-1", 4)
    text = repr(made)
    assert "{" not in text.replace("{'", "").replace("{}", "")
    for path, body in made.objects:
        assert path.startswith("/apis/")
        assert body["spec"]["minMember"] == 4
    assert "my-queue" in text or name == "coscheduling"


def test_coscheduling_labels_the_pods_with_their_group() -> None:
    made = grouping(Gang("coscheduling"), "ns", "run-1", 3)
    assert made.pod_labels == {"scheduling.x-k8s.io/pod-group": "run-1"}
    assert made.objects[0][1]["metadata"]["name"] == "run-1"


def test_kueue_queues_the_job_and_not_its_pods() -> None:
    made = grouping(Gang("kueue", "team"), "ns", "run-1", 3)
    assert made.job_labels == {"kueue.x-k8s.io/queue-name": "team"}
    assert made.pod_labels == {}
    assert made.scheduler == ""


def test_the_certifications_form_finds_the_scheduler_by_its_name() -> None:
    gang = wanted(None, {"gangScheduler": {"schedulerName": "kai-scheduler", "queue": "q"}})
    assert gang == Gang("kai", "q", "kai-scheduler")
    assert grouping(gang, "ns", "r", 2).pod_labels == {"kai.scheduler/queue": "q"}


def test_an_own_scheduler_needs_only_its_queue_label() -> None:
    gang = wanted(None, {"gangScheduler": {"schedulerName": "mine", "queue": "q", "queueLabelKey": "my/queue"}})
    made = grouping(gang, "ns", "r", 2)
    assert (made.scheduler, made.pod_labels) == ("mine", {"my/queue": "q"})


def test_an_unknown_scheduler_is_said_with_the_nearest() -> None:
    with pytest.raises(ClusterError, match="did you mean volcano"):
        grouping(Gang("vulcano"), "ns", "r", 2)
