"""Real pods on real nodes: what comes out, who is blamed, and that nothing is left."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster import Run, RunState, Stop, Workload
from k8s import Gang, KubernetesCluster, names
from k8s.gateway import ApiError, Gateway
from k8s.kinds import TRAINER, dependants
from tests.k8s.conftest import Open
from tests.k8s.driver import Driver
from tests.k8s.things import workload

COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
LONG = ("--collective=all_reduce", "--begin=64K", "--end=16M", "--iters=50", "--cycles=4")


def silent(_: str) -> None:
    pass


def some(cluster: KubernetesCluster, count: int) -> tuple[str, ...]:
    nodes = tuple(node.name for node in cluster.nodes().nodes)
    if len(nodes) < count:
        pytest.skip(f"the cluster has {len(nodes)} usable nodes, this test needs {count}")
    return nodes[:count]


@contextmanager
def tainted(gateway: Gateway, node: str) -> Iterator[None]:
    """Something else than the suite keeps pods off the node."""
    key = "clusterproof-test"

    def change(taints: list[dict[str, str]]) -> None:
        path = f"/api/v1/nodes/{node}"
        body = gateway.get(path)
        assert body is not None
        others = [one for one in body["spec"].get("taints", []) if one["key"] != key]
        gateway.replace(path, {**body, "spec": {**body["spec"], "taints": [*others, *taints]}})

    change([{"key": key, "effect": "NoSchedule"}])
    try:
        yield
    finally:
        change([])


def result_of(run: Run) -> dict[str, Any]:
    line = next(line for line in run.log.decode().splitlines() if line.startswith("CLUSTERPROOF-RESULT"))
    found: dict[str, Any] = json.loads(line.partition(" ")[2])
    return found


def left(gateway: Gateway, namespace: str) -> list[str]:
    """What of ours is in the namespace; owned objects get a moment for the garbage collector."""
    paths = [names.core(namespace, kind) for kind in ("pods", "services", "configmaps")]
    paths += [
        names.grouped("batch/v1", namespace, "jobs"),
        names.grouped("coordination.k8s.io/v1", namespace, "leases"),
    ]
    found: list[str] = []
    for _ in range(40):
        found = [
            f"{path}: {item['metadata']['name']}" for path in paths for item in gateway.items(path, [names.OURS])[0]
        ]
        if not found:
            break
        time.sleep(0.5)
    return found


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_collectives_run_in_pods_with_ranks_in_the_order_of_the_nodes(
    gateway: Gateway, namespace: str, open_cluster: Open, collective: str
) -> None:
    cluster = open_cluster()
    nodes = tuple(reversed(some(cluster, 3)))
    said: list[str] = []
    arguments = (f"--collective={collective}", "--begin=1M", "--end=1M", "--iters=3", "--cycles=1")
    run = cluster.run(workload(*nodes, arguments=arguments), Stop(), said.append)
    assert (run.state, run.message, run.leftovers) == (RunState.SUCCEEDED, "", ())
    assert tuple(rank["node"] for rank in result_of(run)["per_rank"]) == nodes
    assert [(one.rank, one.node, one.code) for one in run.exits] == [(k, node, 0) for k, node in enumerate(nodes)]
    assert set(run.durations) == {"queued", "pulling", "running"}
    assert any(words.startswith("running 3/3") for words in said)
    assert left(gateway, namespace) == []


def test_a_node_alone_runs_all_its_ranks(open_cluster: Open) -> None:
    cluster = open_cluster()
    run = cluster.run(workload(*some(cluster, 1), ranks_per_node=2), Stop(), silent)
    assert run.state is RunState.SUCCEEDED
    assert result_of(run)["world_size"] == 2


def test_one_rank_killed_leaves_the_others_logs_and_names_its_node(open_cluster: Open) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 4)
    arguments = ("--collective=all_reduce", "--begin=64K", "--end=4M", "--iters=5")
    broken = workload(*nodes, arguments=arguments, env={"CLUSTERPROOF_FAULT": "kill:rank=2,after=128K"})
    run = cluster.run(broken, Stop(), silent)
    assert run.state is RunState.FAILED
    assert run.message.startswith(f"rank 2 was killed by signal 9 on {nodes[2]}")
    first = min((one for one in run.exits if one.code), key=lambda one: one.at)
    assert first.node == nodes[2]
    for node in (nodes[0], nodes[1], nodes[3]):
        assert "CLUSTERPROOF-ERROR" in run.tails[node]


def test_an_exit_code_comes_back_by_rank(open_cluster: Open) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 2)
    code = "import os,sys; sys.exit(3 if os.environ['RANK'] == '1' else 0)"
    run = cluster.run(workload(*nodes, framework="exec", program="python3", arguments=("-c", code)), Stop(), silent)
    assert run.state is RunState.FAILED
    assert {one.rank: one.code for one in run.exits} == {0: 0, 1: 3}
    assert run.message == f"rank 1 exited with code 3 on {nodes[1]}"


def test_a_rank_out_of_memory_is_named_with_its_reason(open_cluster: Open) -> None:
    cluster = open_cluster()
    code = "import os,time; x = bytearray(300 << 20) if os.environ['RANK'] == '1' else time.sleep(5)"
    hungry = workload(
        *some(cluster, 2), framework="exec", program="python3", arguments=("-c", code), resources={"memory": "100Mi"}
    )
    run = cluster.run(hungry, Stop(), silent)
    assert run.state is RunState.FAILED
    assert "OOMKilled" in run.message


def test_silence_ends_a_run_as_stalled(open_cluster: Open) -> None:
    cluster = open_cluster()
    quiet = workload(*some(cluster, 2), framework="exec", program="sleep", arguments=("60",), stall_limit_s=4)
    run = cluster.run(quiet, Stop(), silent)
    assert run.state is RunState.STALLED


def test_a_stop_ends_a_run_as_cancelled_with_the_reason(gateway: Gateway, namespace: str, open_cluster: Open) -> None:
    cluster, stop = open_cluster(), Stop()
    sleepy = workload(*some(cluster, 2), framework="exec", program="sleep", arguments=("60",))
    run = cluster.run(sleepy, stop, lambda words: stop.set("Ctrl-C") if "running" in words else None)
    assert (run.state, run.message) == (RunState.CANCELLED, "Ctrl-C")
    assert left(gateway, namespace) == []


def test_what_no_node_can_hold_is_unschedulable_without_launching(open_cluster: Open) -> None:
    cluster = open_cluster()
    run = cluster.run(workload(*some(cluster, 2), resources={"nvidia.com/gpu": "99"}), Stop(), silent)
    assert run.state is RunState.UNSCHEDULABLE
    assert "99 needed" in run.message
    assert run.exits == ()


def test_what_the_scheduler_cannot_place_is_unschedulable_in_its_words(gateway: Gateway, open_cluster: Open) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 2)
    with tainted(gateway, nodes[1]):
        run = cluster.run(workload(*nodes, start_limit_s=5), Stop(), silent)
    assert run.state is RunState.UNSCHEDULABLE
    assert "untolerated taint" in run.message
    assert f"none on {nodes[1]}" in run.message


def test_an_image_that_cannot_be_pulled_is_a_launch_failure(open_cluster: Open) -> None:
    cluster = open_cluster(image="localhost/there-is-no-such-image:1", image_pull_policy="Never")
    run = cluster.run(workload(*some(cluster, 2)), Stop(), silent)
    assert run.state is RunState.LAUNCH_FAILED
    assert "ErrImageNeverPull" in run.message


def test_what_admission_refuses_is_a_launch_failure_in_its_words(
    gateway: Gateway, namespace: str, open_cluster: Open
) -> None:
    space = gateway.get(f"/api/v1/namespaces/{namespace}")
    assert space is not None
    space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    gateway.replace(f"/api/v1/namespaces/{namespace}", space)
    cluster = open_cluster()
    nodes = some(cluster, 1)
    assert cluster.run(workload(*nodes), Stop(), silent).state is RunState.SUCCEEDED, "gloo pods are restricted"
    run = cluster.run(workload(*nodes, backend="nccl", name="with-gpus"), Stop(), silent)
    assert run.state is RunState.LAUNCH_FAILED
    assert "violates PodSecurity" in run.message


def test_two_sessions_never_share_a_node(open_cluster: Open) -> None:
    first, second = open_cluster(session="one"), open_cluster(session="two")
    nodes = some(first, 3)
    sleep = {"framework": "exec", "program": "sleep"}
    runs: dict[str, Run] = {}
    running = threading.Event()

    def begin() -> None:
        work = workload(*nodes[:2], arguments=("6",), name="first", **sleep)
        runs["first"] = first.run(work, Stop(), lambda words: running.set() if "running" in words else None)

    thread = threading.Thread(target=begin)
    thread.start()
    assert running.wait(60)
    refused = second.run(workload(*nodes[1:], arguments=("1",), start_limit_s=1, **sleep), Stop(), silent)
    waited = second.run(workload(*nodes[1:], arguments=("1",), name="later", **sleep), Stop(), silent)
    thread.join()
    assert refused.state is RunState.UNSCHEDULABLE
    assert refused.message == f"{nodes[1]} is held by session one"
    assert waited.state is RunState.SUCCEEDED
    assert waited.ended - waited.durations["running"] >= runs["first"].ended - 1


def test_a_runner_that_starts_again_adopts_what_runs(gateway: Gateway, namespace: str, open_cluster: Open) -> None:
    cluster = open_cluster(session="same")
    work = workload(*some(cluster, 2), framework="exec", program="sleep", arguments=("8",))
    plan, kind = cluster.plan(work)
    body = kind.root(plan)
    gateway.create(kind.collection(namespace), body)
    said: list[str] = []
    time.sleep(3)
    run = cluster.run(work, Stop(), said.append)
    assert run.state is RunState.SUCCEEDED
    assert "adopted" in said
    assert run.seconds > 3


def test_a_dead_sessions_pods_are_removed_before_its_nodes_are_used(
    gateway: Gateway, namespace: str, open_cluster: Open
) -> None:
    dead, alive = open_cluster(session="dead"), open_cluster(session="alive")
    nodes = some(dead, 2)
    plan, kind = dead.plan(workload(*nodes, framework="exec", program="sleep", arguments=("300",), name="orphan"))
    root = gateway.create(kind.collection(namespace), kind.root(plan))
    for path, body in dependants(plan, kind, root):
        gateway.create(path, body)
    time.sleep(3)
    said: list[str] = []
    run = alive.run(workload(*nodes), Stop(), said.append)
    assert run.state is RunState.SUCCEEDED
    assert any("which an earlier session left" in words for words in said)


def needs(gateway: Gateway, group: str, namespace: str, plural: str) -> None:
    try:
        gateway.items(names.grouped(group, namespace, plural))
    except ApiError as error:
        if error.status != 404:
            raise
        pytest.skip(f"the cluster does not know {plural}.{group}")


def test_a_trainjob_runs_the_same_pods_in_the_same_order_and_leaves_nothing(
    gateway: Gateway, namespace: str, open_cluster: Open
) -> None:
    needs(gateway, TRAINER, namespace, "trainjobs")
    cluster = open_cluster(launch_kind="trainjob")
    nodes = tuple(reversed(some(cluster, 3)))
    run = cluster.run(workload(*nodes), Stop(), silent)
    assert (run.state, run.message, run.leftovers) == (RunState.SUCCEEDED, "", ())
    assert tuple(rank["node"] for rank in result_of(run)["per_rank"]) == nodes
    assert left(gateway, namespace) == []
    for plural in ("trainjobs", "trainingruntimes"):
        assert gateway.items(names.grouped(TRAINER, namespace, plural))[0] == []


def test_a_gang_starts_all_or_none(gateway: Gateway, namespace: str, open_cluster: Open) -> None:
    needs(gateway, COSCHEDULING, namespace, "podgroups")
    scheduler = os.environ.get("CLUSTERPROOF_TEST_GANG_SCHEDULER", "gang-scheduler")
    cluster = open_cluster(gang=Gang("coscheduling", scheduler_name=scheduler))
    nodes = some(cluster, 3)
    assert cluster.run(workload(*nodes[:2]), Stop(), silent).state is RunState.SUCCEEDED
    with tainted(gateway, nodes[2]):
        run = cluster.run(workload(*nodes, start_limit_s=8, name="too-many"), Stop(), silent)
    assert run.state is RunState.UNSCHEDULABLE
    assert run.message.startswith("3 of 3 pods not scheduled"), run.message
    assert (run.exits, run.leftovers) == ((), ())
    assert gateway.items(names.grouped(COSCHEDULING, namespace, "podgroups"))[0] == []


def requests_since(audit: Path, mark: int, namespace: str) -> Counter[str]:
    """Requests that touched the namespace from outside the control plane, by verb and resource."""
    time.sleep(1)
    found: Counter[str] = Counter()
    with audit.open("rb") as file:
        file.seek(mark)
        for line in file:
            event = json.loads(line)
            reference = event.get("objectRef") or {}
            if not event["user"]["username"].startswith("system:") and reference.get("namespace") == namespace:
                subresource = f"/{reference['subresource']}" if "subresource" in reference else ""
                found[f"{event['verb']} {reference['resource']}{subresource}"] += 1
    return found


def test_a_workload_costs_at_most_twelve_requests_and_no_write_on_a_node(
    namespace: str, open_cluster: Open, audit: Path
) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 4)
    cluster.run(workload(*nodes[:1], name="warm-up"), Stop(), silent)
    mark = audit.stat().st_size
    run = cluster.run(workload(*nodes), Stop(), silent)
    assert run.state is RunState.SUCCEEDED
    counted = requests_since(audit, mark, namespace)
    apart = {name: count for name, count in counted.items() if "leases" not in name and not name.startswith("watch")}
    assert sum(apart.values()) <= 12, counted
    assert not [line for line in audit.read_text().splitlines() if _writes_a_node(json.loads(line))]


def _writes_a_node(event: dict[str, Any]) -> bool:
    reads = ("get", "list", "watch")
    ours = "clusterproof" in event["user"]["username"]
    return ours and event["verb"] not in reads and (event.get("objectRef") or {}).get("resource") == "nodes"


def health(gateway: Gateway, node: str, status: str) -> None:
    path = f"/api/v1/nodes/{node}/status"
    body = gateway.get(path)
    assert body is not None
    others = [one for one in body["status"]["conditions"] if one["type"] != "GpuXid"]
    words = {"type": "GpuXid", "status": status, "reason": "Xid79", "message": "fallen off the bus"}
    body["status"]["conditions"] = [*others, words]
    gateway.replace(path, body)


def test_hardware_evidence_in_the_middle_ends_the_run_and_names_the_node(gateway: Gateway, open_cluster: Open) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 2)
    work = workload(*nodes, framework="exec", program="sleep", arguments=("60",))

    def progress(words: str) -> None:
        if words.startswith("running"):
            health(gateway, nodes[1], "True")

    try:
        run = cluster.run(work, Stop(), progress)
    finally:
        health(gateway, nodes[1], "False")
    assert run.state is RunState.UNHEALTHY
    assert [(event.node, event.kind) for event in run.events] == [(nodes[1], "health")]
    assert "fallen off the bus" in run.message


@pytest.mark.slow  # 12 s: transfers through a link at a tenth of its speed
def test_a_slow_node_makes_its_groups_slow(open_cluster: Open, driver: Driver) -> None:
    cluster = open_cluster()
    nodes = some(cluster, 3)
    rates = {}
    with driver.rate(nodes[2], "100mbit", "1gbit"):
        for group in (nodes[:2], nodes[1:]):
            run = cluster.run(workload(*group), Stop(), silent)
            assert run.state is RunState.SUCCEEDED
            rates[group] = result_of(run)["cycles"][0]["rows"][-1]["busbw"]
    assert rates[nodes[1:]] < 0.3 * rates[nodes[:2]]


@pytest.mark.slow  # 45 s: the node has to come back
def test_a_node_that_dies_in_the_middle_is_lost_and_nobody_is_accused(
    gateway: Gateway, open_cluster: Open, driver: Driver
) -> None:
    cluster = open_cluster(cleanup_s=5)
    nodes = some(cluster, 3)
    began = threading.Event()

    def kill() -> None:
        began.wait(60)
        time.sleep(6)
        driver.stop(nodes[2])

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        run = cluster.run(
            workload(*nodes, arguments=LONG), Stop(), lambda words: began.set() if "running" in words else None
        )
    finally:
        thread.join()
        driver.start(nodes[2])
    assert run.state is RunState.LOST
    assert [(event.node, event.kind) for event in run.events] == [(nodes[2], "lost")]
    assert [text for text in run.leftovers if nodes[2] in text]
    for _ in range(60):
        node = gateway.get(f"/api/v1/nodes/{nodes[2]}")
        if node and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"]):
            break
        time.sleep(1)


def test_render_shows_exactly_what_would_be_created(open_cluster: Open) -> None:
    cluster = open_cluster()
    objects = cluster.render(workload(*some(cluster, 2)))
    assert [item["kind"] for item in objects] == ["Job", "Service", "ConfigMap"]


def test_a_node_that_is_not_in_the_cluster_is_said(open_cluster: Open) -> None:
    work: Workload = workload("there-is-no-such-node")
    run = open_cluster().run(work, Stop(), silent)
    assert run.state is RunState.LAUNCH_FAILED
    assert "there-is-no-such-node" in run.message
