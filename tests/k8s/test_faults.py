"""The API server misbehaves between runner and cluster: the right verdict or a clear error, never a false pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import ClusterError, RunState, Stop
from tests.k8s import proxy as faults
from tests.k8s.conftest import KUBECONFIG, Open
from tests.k8s.proxy import Handler, Rule
from tests.k8s.things import workload

Fault = Callable[[Handler], None]
JOBS = r"POST /apis/batch/v1/.*/jobs"
WATCH = r"GET .*watch=true"
LOG = r"GET .*/log\?"
SHOUT = "import time\nfor k in range(40): print('line', k, 'ä' * 50, flush=True); time.sleep(0.1)"
EXPECTED = "".join(f"line {k} {'ä' * 50}\n" for k in range(40)).encode()

HEALED: list[tuple[str, str, Fault, int]] = [
    ("dropped-write", JOBS, faults.dropped, 2),
    ("lost-answer-of-a-write", JOBS, faults.lost_answer, 1),
    ("lost-answer-of-a-lease", r"POST .*/leases", faults.lost_answer, 1),
    ("dropped-delete", r"DELETE .*/jobs/", faults.dropped, 2),
    ("slow", JOBS, faults.slow, 1),
    ("401", JOBS, faults.status(401), 1),
    ("429", JOBS, faults.status(429, Retry_After="1"), 2),
    ("500", r"(POST|DELETE) ", faults.status(500), 4),
    ("503-lists", r"GET .*(pods|nodes)\?limit", faults.status(503), 3),
    ("cut-json-list", r"GET .*(pods|nodes)\?limit", faults.cut_json, 2),
    ("truncated-list", r"GET .*(pods|nodes)\?limit", faults.truncated, 2),
    ("410-watch", WATCH, faults.status(410), 4),
    ("410-inside-the-watch", WATCH, faults.gone_inside, 4),
    ("watch-closes-at-once", WATCH, faults.closed_at_once, 10),
    ("watch-cut", WATCH, faults.truncated, 6),
    ("watch-dropped", WATCH, faults.dropped, 6),
    ("log-cut", LOG, faults.truncated, 2),
    ("log-dropped", LOG, faults.dropped, 3),
    ("log-500", LOG, faults.status(500), 3),
]


@pytest.mark.slow  # three minutes: a run of 5 s and its repeats for each fault
@pytest.mark.parametrize("case", HEALED, ids=[one[0] for one in HEALED])
def test_a_passing_fault_changes_nothing_in_the_verdict(
    open_cluster: Open, tmp_path: Path, case: tuple[str, str, Fault, int]
) -> None:
    name, pattern, fault, times = case
    with faults.proxy(KUBECONFIG) as between:
        between.rules.append(Rule(pattern, fault, times))
        cluster = open_cluster(kubeconfig=between.kubeconfig(tmp_path))
        node = cluster.nodes().nodes[0].name
        work = workload(node, framework="exec", program="python3", arguments=("-u", "-c", SHOUT), name=name)
        run = cluster.run(work, Stop(), lambda _: None)
        assert between.rules[0].hits > 0, "the fault was never met"
        assert (run.state, run.message, run.leftovers) == (RunState.SUCCEEDED, "", ())
        assert run.log == EXPECTED


@pytest.mark.slow  # 70 s: a watch that says nothing is only healed by the next list
def test_a_silent_watch_is_healed_by_the_next_list(open_cluster: Open, tmp_path: Path) -> None:
    with faults.proxy(KUBECONFIG) as between:
        between.rules.append(Rule(r"GET .*/pods\?.*watch=true", faults.silent, 1))
        cluster = open_cluster(kubeconfig=between.kubeconfig(tmp_path))
        node = cluster.nodes().nodes[0].name
        work = workload(node, framework="exec", program="true", start_limit_s=120)
        assert cluster.run(work, Stop(), lambda _: None).state is RunState.SUCCEEDED


@pytest.mark.slow  # 40 s: a call that is never answered ends with its read timeout
def test_a_half_open_connection_does_not_hang_the_run(open_cluster: Open, tmp_path: Path) -> None:
    with faults.proxy(KUBECONFIG) as between:
        between.rules.append(Rule(JOBS, faults.half_open, 1))
        cluster = open_cluster(kubeconfig=between.kubeconfig(tmp_path))
        node = cluster.nodes().nodes[0].name
        begun = time.monotonic()
        run = cluster.run(workload(node, framework="exec", program="true"), Stop(), lambda _: None)
        assert run.state is RunState.SUCCEEDED
        assert time.monotonic() - begun < 90


@pytest.mark.parametrize("code", [403, 409])
def test_a_lasting_refusal_is_an_error_with_its_words_and_no_verdict(
    open_cluster: Open, tmp_path: Path, code: int
) -> None:
    with faults.proxy(KUBECONFIG) as between:
        between.rules.append(Rule(JOBS, faults.status(code), 1000))
        cluster = open_cluster(kubeconfig=between.kubeconfig(tmp_path), cleanup_s=3)
        node = cluster.nodes().nodes[0].name
        run = cluster.run(workload(node, framework="exec", program="true"), Stop(), lambda _: None)
        assert run.state is RunState.LAUNCH_FAILED
        assert f"broken on purpose ({code})" in run.message


def test_a_server_that_lists_no_nodes_is_an_error(open_cluster: Open, tmp_path: Path) -> None:
    with faults.proxy(KUBECONFIG) as between:
        between.rules.append(Rule(r"GET /api/v1/nodes", faults.status(403), 1000))
        cluster = open_cluster(kubeconfig=between.kubeconfig(tmp_path))
        with pytest.raises(ClusterError, match=r"rbac\.yaml"):
            cluster.nodes()
