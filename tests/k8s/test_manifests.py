"""What is sent to the API server: valid, pinned, restricted, and found again by name."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import pytest

from cluster import ClusterError, Workload
from k8s import Settings, names, platforms
from k8s.kinds import JOB, dependants
from k8s.plan import Plan, lacking, make, with_rail
from k8s.platforms import Change, Rule, When, merge
from k8s.quantity import amount
from tests.k8s.things import node, workload

Json = dict[str, Any]
NODES = {name: node(name) for name in ("n1", "n2", "n3", "n4")}
GLOO = Settings(session="s1", image="img:1", backend="gloo")


def plan_of(work: Workload, settings: Settings = GLOO, nodes: dict[str, Json] | None = None) -> Plan:
    known = nodes or NODES
    facts = {"platform": "onprem", "framework": work.framework, "backend": work.backend, "accelerator": "h100"}
    return make(work, settings, "ns", known, patch=merge(platforms.shipped(), facts))


def objects(plan: Plan) -> list[Json]:
    root = JOB.root(plan)
    stored = {**root, "metadata": {**root["metadata"], "uid": "u-1"}}
    return [root, *(body for _, body in dependants(plan, JOB, stored))]


def pod_spec(plan: Plan) -> Json:
    spec: Json = JOB.root(plan)["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_every_object_is_valid_for_its_schema(backend: str) -> None:
    plan = plan_of(workload("n1", "n2", backend=backend))
    for item in objects(plan):
        kubernetes_validate.validate(item, "1.34", strict=True)


def test_the_job_owns_what_comes_after_it_and_the_runner_owns_the_job() -> None:
    job, service, config = objects(plan_of(workload()))
    assert [item["metadata"]["ownerReferences"][0]["uid"] for item in (service, config)] == ["u-1", "u-1"]
    assert "blockOwnerDeletion" not in service["metadata"]["ownerReferences"][0]
    assert job["metadata"]["ownerReferences"] == []


def test_a_failed_rank_cannot_erase_the_others_logs() -> None:
    spec = objects(plan_of(workload()))[0]["spec"]
    assert spec["backoffLimitPerIndex"] == 0
    assert "backoffLimit" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] >= 2 * 60 + 120


def test_pods_are_pinned_to_the_group_one_a_host() -> None:
    spec = pod_spec(plan_of(workload("n3", "n1")))
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n3"]}]}
    ]
    assert spec["topologySpreadConstraints"][0]["maxSkew"] == 1


def test_the_shorter_list_of_nodes_is_written() -> None:
    many = {f"n{k}": node(f"n{k}") for k in range(20)}
    plan = plan_of(workload(*[f"n{k}" for k in range(18)]), nodes=many)
    term = pod_spec(plan)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["nodeSelectorTerms"][0]["matchExpressions"][0] == {
        "key": "kubernetes.io/hostname",
        "operator": "NotIn",
        "values": ["n18", "n19"],
    }


def test_nodes_without_hostname_label_are_named() -> None:
    bare = node("n1")
    del bare["metadata"]["labels"]["kubernetes.io/hostname"]
    term = pod_spec(plan_of(workload("n1"), nodes={"n1": bare}))["affinity"]["nodeAffinity"]
    fields = term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchFields"]
    assert fields == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]


def test_cpu_programs_run_restricted_and_see_no_gpu() -> None:
    container = pod_spec(plan_of(workload()))["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "readOnlyRootFilesystem": True,
    }
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert container["resources"] == {"requests": {}, "limits": {}}


def test_gpu_programs_ask_for_their_gpus_and_cpu_has_no_limit() -> None:
    work = workload(backend="nccl", ranks_per_node=8, resources={"cpu": "64", "memory": "800Gi"})
    container = pod_spec(plan_of(work))["containers"][0]
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "8", "cpu": "64", "memory": "800Gi"}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8", "memory": "800Gi"}
    assert container["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}


def test_the_users_resources_win_and_a_zero_takes_one_away() -> None:
    settings = Settings(session="s", image="i", resources={"nvidia.com/gpu": "0", "rdma/ib": "8"})
    assert plan_of(workload(backend="nccl"), settings).resources == {"rdma/ib": "8"}


def test_what_no_node_can_hold_is_said_before_launching() -> None:
    plan = plan_of(workload("n1", "n2", backend="nccl", ranks_per_node=9))
    assert lacking(plan, NODES) == "n1 has 8 of nvidia.com/gpu, 9 needed; n2 has 8 of nvidia.com/gpu, 9 needed"
    assert lacking(plan_of(workload("n1", resources={"cpu": "95500m"})), NODES) == ""


def test_without_any_image_the_user_is_told() -> None:
    with pytest.raises(ClusterError, match="`image`"):
        make(workload(), Settings(), "ns", NODES, patch=platforms.Patch())


def test_names_are_deterministic_short_and_differ_between_sessions() -> None:
    long = "x" * 52
    assert names.run_name("0f3d7c2e-1b2c-4f2e-9b1c-111111111111", long) == names.run_name(
        "0f3d7c2e-1b2c-4f2e-9b1c-111111111111", long
    )
    assert names.run_name("session-a", long) != names.run_name("session-b", long)
    for session in ("a", "0f3d7c2e-1b2c-4f2e-9b1c-111111111111", "Ünïcode session!"):
        name = names.run_name(session, long)
        assert names.run_name(session, "3d-mesh")[0].isalpha(), "a Service's name begins with a letter"
        assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
        assert len(name) <= names.LONGEST
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", names.label(session))


def test_only_the_very_same_workload_is_adopted() -> None:
    assert names.fingerprint(workload("n1", "n2")) == names.fingerprint(workload("n1", "n2"))
    assert names.fingerprint(workload("n1", "n2")) != names.fingerprint(workload("n2", "n1"))


def test_rules_merge_by_name_and_say_what_they_changed() -> None:
    table = [
        Rule(name="a", when=When(), set=Change(env={"X": "1", "Y": "1"}, resources={"efa": "32"}, image="one")),
        Rule(name="b", when=When(accelerator=("h1*",)), set=Change(env={"X": "2", "Y": None})),
        Rule(name="c", when=When(platform=("aws",)), set=Change(env={"X": "3"})),
        Rule(name="d", when=When(), set=Change(env={"X": "2"})),
    ]
    patch = merge(table, {"platform": "onprem", "accelerator": "h100"})
    assert patch.env == {"X": "2", "Y": None}
    assert patch.resources == {"efa": "32"}
    assert patch.applied == (("a", "env.X, env.Y, resources.efa, image"), ("b", "env.X, env.Y"), ("d", "nothing"))


def test_the_workloads_environment_wins_over_the_platforms() -> None:
    rule = Rule(name="a", when=When(), set=Change(env={"NCCL_DEBUG": "WARN", "GONE": None}))
    plan = make(workload(env={"NCCL_DEBUG": "INFO"}), GLOO, "ns", NODES, patch=merge([rule], {}))
    env = {item["name"]: item.get("value") for item in pod_spec(plan)["containers"][0]["env"]}
    assert env["NCCL_DEBUG"] == "INFO"
    assert "GONE" not in env


def test_a_rail_becomes_the_name_of_its_nic() -> None:
    assert with_rail("={rail:2}", ()) == "=mlx5_2"
    assert with_rail("={rail:1}", ("mlx5_0", "mlx5_3")) == "=mlx5_3"


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("500m", 0.5), ("1Ki", 1024), ("2G", 2e9), ("1e3", 1000), ("0", 0)]
)
def test_quantities_are_read_as_the_api_server_reads_them(text: str, value: float) -> None:
    assert amount(text) == value
