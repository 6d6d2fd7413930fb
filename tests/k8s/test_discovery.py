"""The census: which nodes are tested, in which order, and that nobody vanishes."""

from __future__ import annotations

import pytest

from cluster import ClusterError
from k8s import Settings, Target
from k8s.discovery import inventory, nics_of, nvlink_of, platform_of, topology_of
from k8s.health import Watcher
from tests.k8s.things import condition, node

WATCHER = Watcher()


def reasons(*nodes: dict[str, object], settings: Settings | None = None) -> dict[str, str]:
    found = inventory(nodes, settings or Settings(), WATCHER)
    return {each.node: each.reason for each in found.excluded}


def test_healthy_nodes_come_in_topology_order_with_numbers_by_value() -> None:
    leaf = "network.topology.nvidia.com/leaf"
    nodes = [node(f"n{k}", labels={leaf: f"leaf-{k % 2}"}) for k in (10, 9, 2, 1)]
    found = inventory(nodes, Settings(), WATCHER)
    assert [each.name for each in found.nodes] == ["n2", "n10", "n1", "n9"]
    assert found.nodes[0].topology == (("leaf", "leaf-0"),)
    assert found.nodes[0].accelerators == 8
    assert found.excluded == ()


def test_a_node_whose_driver_died_is_excluded_not_forgotten() -> None:
    why = reasons(node("n1"), node("n2"), node("n3", gpus=0, promised=8))
    assert why == {"n3": "GPUs: 0 allocatable, 8 needed (labels promise 8)"}


def test_a_node_with_fewer_gpus_than_most_is_excluded() -> None:
    assert "7 allocatable, 8 needed" in reasons(node("n1"), node("n2"), node("n3", gpus=7))["n3"]


def test_every_reason_is_listed() -> None:
    bad = node(
        "n2",
        ready="False",
        spec={"unschedulable": True, "taints": [{"key": "maintenance", "effect": "NoSchedule"}]},
        conditions=[condition("GpuEcc", "True", "GpuEccHasIssues", "row remap failed")],
    )
    why = reasons(node("n1"), bad)["n2"]
    for part in ("NotReady", "cordoned", "taint maintenance:NoSchedule", "condition GpuEcc=True"):
        assert part in why


def test_taints_of_accelerators_and_preferences_are_borne() -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    assert reasons(node("n1", spec={"taints": taints})) == {}


def test_a_taint_selector_selects_and_is_borne() -> None:
    taint = {"key": "reserved", "value": "burn-in", "effect": "NoSchedule"}
    settings = Settings(target=Target(taint_selectors=({"key": "reserved"},)))
    found = inventory([node("n1"), node("n2", spec={"taints": [taint]})], settings, WATCHER)
    assert [each.name for each in found.nodes] == ["n2"]


def test_cordoned_nodes_are_tested_only_when_the_target_says_so() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = node("n1", spec={"unschedulable": True, "taints": [taint]})
    assert reasons(cordoned) == {"n1": "cordoned"}
    meant = Settings(target=Target(taint_selectors=({"key": taint["key"]},)))
    assert [each.name for each in inventory([cordoned], meant, WATCHER).nodes] == ["n1"]


@pytest.mark.parametrize(
    ("operator", "values", "names"),
    [
        ("In", ["a"], ["n1"]),
        ("NotIn", ["a"], ["n2", "n3"]),
        ("Exists", [], ["n1", "n2"]),
        ("DoesNotExist", [], ["n3"]),
    ],
)
def test_match_expressions_mean_what_they_mean_in_kubernetes(
    operator: str, values: list[str], names: list[str]
) -> None:
    nodes = [node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"}), node("n3")]
    target = Target(match_expressions=({"key": "pool", "operator": operator, "values": values},))
    assert [each.name for each in inventory(nodes, Settings(target=target), WATCHER).nodes] == names


def test_without_a_target_only_nodes_that_promise_gpus_are_in_the_census() -> None:
    nodes = [node("gpu"), node("cpu", gpus=0)]
    assert [each.name for each in inventory(nodes, Settings(), WATCHER).nodes] == ["gpu"]
    assert reasons(*nodes) == {}
    on_cpus = inventory(nodes, Settings(backend="gloo"), WATCHER)
    assert [each.name for each in on_cpus.nodes] == ["cpu", "gpu"]


def test_shared_gpus_cannot_be_measured() -> None:
    why = reasons(node("n1", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED"}))
    assert "shared" in why["n1"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (
            {
                "topology.kubernetes.io/zone": "us-east-1e",
                "topology.k8s.aws/network-node-layer-1": "nn-1",
                "topology.k8s.aws/network-node-layer-2": "nn-2",
                "topology.k8s.aws/network-node-layer-3": "nn-3",
            },
            (("zone", "us-east-1e"), ("block", "nn-1"), ("spine", "nn-2"), ("leaf", "nn-3")),
        ),
        (
            {
                "oci.oraclecloud.com/rdma.hpc_island_id": "island",
                "oci.oraclecloud.com/rdma.network_block_id": "block",
                "oci.oraclecloud.com/rdma.local_block_id": "local",
            },
            (("block", "island"), ("spine", "block"), ("leaf", "local")),
        ),
        ({"oci.oraclecloud.com/rdma.local_block_id": "no-imds-data"}, ()),
        (
            {"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "s"},
            (("block", "b"), ("spine", "s")),
        ),
        (
            {
                "backend.coreweave.cloud/fabric": "f",
                "backend.coreweave.cloud/superpod": "s",
                "backend.coreweave.cloud/leafgroup": "l",
            },
            (("block", "f"), ("spine", "s"), ("leaf", "l")),
        ),
    ],
)
def test_topology_of_every_cloud_runs_from_outermost_to_innermost(
    labels: dict[str, str], expected: tuple[tuple[str, str], ...]
) -> None:
    assert topology_of(labels) == expected


def test_the_users_topology_keys_replace_ours() -> None:
    assert topology_of({"row": "r1", "rack": "k1"}, ["row", "rack"]) == (("row", "r1"), ("rack", "k1"))


def test_a_level_where_every_node_stands_alone_says_nothing() -> None:
    host = "cloud.google.com/gce-topology-host"
    found = inventory([node("n1", labels={host: "h1"}), node("n2", labels={host: "h2"})], Settings(), WATCHER)
    assert [each.topology for each in found.nodes] == [(), ()]


def test_nvlink_domains_come_from_the_clique_and_zeros_are_none() -> None:
    clique = "0b5c1d6e-0000-4000-8000-00000000000a.1"
    assert nvlink_of({"nvidia.com/gpu.clique": clique}) == clique
    assert nvlink_of({"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0"}) == ""
    assert nvlink_of({"ds.coreweave.com/nvlink.domain": "d0"}) == "d0"


def test_nics_are_counted_where_they_are_announced_and_shares_are_not_nics() -> None:
    assert nics_of({"vpc.amazonaws.com/efa": "32"}) == 32
    assert nics_of({"nvidia.com/mlnxnics": "8"}) == 8
    assert nics_of({"rdma/hca_shared_devices": "1k"}) == 0
    assert nics_of({"rdma/a": "1", "rdma/b": "1"}) == 2


@pytest.mark.parametrize(
    ("spec", "labels", "platform"),
    [
        ({"providerID": "aws:///us-east-1e/i-0"}, {}, "aws"),
        ({"providerID": "gce://p/z/n"}, {}, "gcp"),
        ({"providerID": "ocid1.instance.oc1"}, {}, "oci"),
        ({}, {"backend.coreweave.cloud/flavor": "infiniband"}, "coreweave"),
        ({}, {}, "onprem"),
    ],
)
def test_platforms_are_told_by_provider_and_labels(spec: dict[str, str], labels: dict[str, str], platform: str) -> None:
    assert platform_of(node("n", spec=spec, labels=labels)) == platform


@pytest.mark.parametrize(
    ("bad", "kinds"),
    [
        (condition("XidCriticalError", "True", '{"79":true}'), ["health"]),
        (condition("XidCriticalError", "True", '{"31":true}'), []),
        (condition("XidCriticalError", "True", '{"31":true,"79":true}'), ["health"]),
        (condition("RdmaLink", "True", "RdmaLinkHasIssues", "link error"), ["health"]),
        (condition("GpuEcc", "Unknown", "", "the check failed"), []),
        (condition("AcceleratedHardwareReady", "False", "NvidiaXID79"), ["health"]),
        (condition("AcceleratedHardwareReady", "True"), []),
        (condition("MemoryPressure", "True"), []),
    ],
)
def test_health_conditions_have_polarity_and_application_xids_accuse_nobody(
    bad: dict[str, str], kinds: list[str]
) -> None:
    before = node("n1")
    assert [hit.kind for hit in WATCHER.news(node("n1", conditions=[bad]), before)] == kinds


def test_what_was_so_before_the_run_does_not_end_it() -> None:
    bad = node("n1", conditions=[condition("GpuXid", "True", "79")])
    assert WATCHER.news(bad, bad) == []


@pytest.mark.parametrize(("gpus", "kind"), [(7, "health"), (0, "invalid")])
def test_dropped_gpus_are_evidence_unless_all_are_gone(gpus: int, kind: str) -> None:
    assert [hit.kind for hit in WATCHER.news(node("n1", gpus=gpus, promised=8), node("n1"))] == [kind]


def test_cordon_and_not_ready_in_the_middle_accuse_nobody() -> None:
    before = node("n1")
    assert [hit.kind for hit in WATCHER.news(node("n1", spec={"unschedulable": True}), before)] == ["invalid"]
    assert [hit.kind for hit in WATCHER.news(node("n1", ready="Unknown"), before)] == ["lost"]


def test_a_bad_health_rule_is_said_before_anything_runs() -> None:
    with pytest.raises(ClusterError, match="not a CEL expression"):
        Watcher([{"name": "mine", "kind": "health", "when": "node.status.("}])
    with pytest.raises(ClusterError, match="kind"):
        Watcher([{"name": "mine", "kind": "sick", "when": "true"}])
