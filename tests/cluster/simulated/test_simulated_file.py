"""The simulation file: defaults, node objects, and what is refused with the path inside the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ClusterError, topology_order
from cluster.simulated import SimulatedCluster
from tests.cluster.simulated.fabrics import fabric, names, run, shipped, workload

SLOW = {"kind": "node", "node": "node-003", "effect": "slow", "factor": 0.5}


def refused(tmp_path: Path, content: Any) -> str:
    path = tmp_path / "simulation.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    with pytest.raises(ClusterError) as caught:
        SimulatedCluster.from_file(path, shipped())
    text = str(caught.value)
    assert all(line.startswith(str(path)) for line in text.splitlines()), text
    return text.replace(str(path), "FILE")


def test_every_key_but_nodes_has_a_default() -> None:
    nodes = fabric(3).nodes().nodes
    assert [node.name for node in nodes] == ["node-000", "node-001", "node-002"]
    first = nodes[0]
    assert (first.accelerators, first.product, first.platform) == (8, "NVIDIA-H100-80GB-HBM3", "onprem")
    assert (first.nics, first.nic_gbps, first.topology, first.nvlink_domain) == (8, 400.0, (), "")


def test_domains_are_numbered_over_the_whole_cluster_and_the_last_may_be_short() -> None:
    nodes = fabric(19, topology={"block": 8, "rack": 4}).nodes().nodes
    paths = {node.name: "/".join(node.path) for node in nodes}
    assert paths["node-000"] == "block-0/rack-0"
    assert paths["node-013"] == "block-1/rack-3"
    assert paths["node-018"] == "block-2/rack-4"
    assert nodes == topology_order(nodes)


def test_a_level_larger_than_the_cluster_is_one_domain() -> None:
    nodes = fabric(6, topology={"block": 5000, "rack": 4}).nodes().nodes
    assert [node.path for node in nodes] == [("block-0", "rack-0")] * 4 + [("block-0", "rack-1")] * 2


def test_labels_are_made_from_the_path_and_the_nvlink_domain() -> None:
    nodes = fabric(20, topology={"rack": 18}, nvlink_domain=18, product="NVIDIA-GB200", accelerators=4).nodes().nodes
    last = next(node for node in nodes if node.name == "node-019")
    assert last.nvlink_domain == "nvlink-1"
    assert last.labels["network.topology.nvidia.com/rack"] == "rack-1"
    assert last.labels["nvidia.com/gpu.clique"] == "nvlink-1.0"
    assert last.labels["nvidia.com/gpu.product"] == "NVIDIA-GB200"
    assert last.labels["nvidia.com/gpu.count"] == "4"
    assert "nvidia.com/gpu.clique" not in fabric(2).nodes().nodes[0].labels


def test_nodes_may_have_names_of_their_own() -> None:
    own = ["gpu-node-05", "gpu-node-12", "gpu-node-07"]
    assert [node.name for node in fabric(own).nodes().nodes] == ["gpu-node-05", "gpu-node-07", "gpu-node-12"]


def test_the_fabric_of_the_file_wins_over_the_products() -> None:
    node = fabric(2, fabric={"rails": 4, "gbps": 200}).nodes().nodes[0]
    assert (node.nics, node.nic_gbps) == (4, 200.0)


def test_a_product_nobody_knows_runs_and_its_fabric_is_unknown() -> None:
    cluster = fabric(2, product="ACME-X1")
    assert (cluster.nodes().nodes[0].nics, cluster.nodes().nodes[0].nic_gbps) == (0, 0.0)
    assert b"CLUSTERPROOF-RESULT" in run(cluster, workload(names([0, 1]))).log


def test_a_file_with_all_faults_commented_out_is_healthy() -> None:
    assert len(fabric(2, faults=()).nodes().nodes) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "FILE: nodes: expected a count from 1"),
        ({"nodes": -4}, "FILE: nodes: expected a count from 1"),
        ({"nodes": True}, "FILE: nodes: expected a count from 1"),
        ({"nodes": "64"}, "FILE: nodes: expected a count from 1"),
        ({"nodes": []}, "FILE: nodes: expected a count from 1"),
        ({"nodes": ["a", "b", "a"]}, "FILE: nodes: expected each name once, found 'a' twice"),
        ({"nodes": ["a", "Bad Name"]}, "FILE: nodes[1]: expected a node name"),
        ({"accelerators": 0}, "FILE: accelerators: expected greater than or equal to 1, found 0"),
        ({"accelerators": 7.5}, "FILE: accelerators: expected a valid integer"),
        ({"noise": 1}, "FILE: noise: expected less than 1"),
        ({"noise": -0.1}, "FILE: noise: expected greater than or equal to 0"),
        ({"noise": float("nan")}, "FILE: noise: expected"),
        ({"nvlink_domain": 0}, "FILE: nvlink_domain: expected greater than or equal to 1"),
        ({"nvlinkDomain": 2}, "FILE: nvlinkDomain: unknown key 'nvlinkDomain'"),
        ({"nodess": 2}, "FILE: nodess: unknown key 'nodess'"),
        ({"fabric": {"rails": 8}}, "FILE: fabric.gbps: expected a value, found none"),
        ({"fabric": {"rails": 0, "gbps": 400}}, "FILE: fabric.rails: expected greater than or equal to 1"),
        ({"topology": {"rack": 0}}, "FILE: topology.rack: expected greater than or equal to 1"),
        ({"topology": {"block": 8, "rack": 3}}, "FILE: topology.rack: expected a number that divides block: 8"),
        ({"topology": {"rack": 4, "block": 8}}, "FILE: topology.block: expected a number that divides rack: 4"),
        ({"seed": "x"}, "FILE: seed: expected a valid integer, found 'x'"),
        ({"faults": {"kind": "nic"}}, "FILE: faults: expected a valid list, found a mapping"),
        ({"faults": ["nic"]}, "FILE: faults[0]: expected a valid dictionary, found 'nic'"),
    ],
)
def test_impossible_values_are_refused_with_their_path(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in refused(tmp_path, {"nodes": 16, **changes})


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({}, "faults[0].kind: expected one of boundary, gpu, health"),
        ({"kind": "nik"}, "faults[0].kind: expected one of"),
        ({"kind": "boundry"}, "found 'boundry'; did you mean 'boundary'?"),
        ({**SLOW, "node": "node-99"}, "faults[0].node: expected a node of this simulation"),
        ({**SLOW, "node": "nod-003"}, "found 'nod-003'; did you mean 'node-003'?"),
        ({"kind": "node", "node": "node-003", "effect": "slow"}, "faults[0]: effect slow needs a factor"),
        ({**SLOW, "effect": "crash"}, "faults[0]: effect crash takes no factor"),
        ({**SLOW, "effect": "sloww"}, "faults[0].effect: expected one of slow, crash, hang, corrupt, nan"),
        ({**SLOW, "factor": 0}, "faults[0].factor: expected greater than 0, found 0"),
        ({**SLOW, "factor": 1.5}, "faults[0].factor: expected less than or equal to 1"),
        ({**SLOW, "factr": 0.5}, "faults[0].factr: unknown key 'factr'"),
        ({**SLOW, "size": "1M"}, "faults[0]: effect slow takes no size"),
        ({"kind": "node", "node": "node-003", "effect": "nan", "at": "3s"}, "effect nan takes no at"),
        ({"kind": "node", "node": "node-003", "effect": "corrupt", "size": "x"}, "faults[0].size: expected a message"),
        ({"kind": "nic", "node": "node-003", "factor": 0.5, "rail": 8}, "faults[0].rail: expected 0 to 7"),
        ({"kind": "nic", "node": "node-003", "factor": 0.5, "rail": -1}, "faults[0].rail: expected greater"),
        ({"kind": "nic", "node": "node-003"}, "faults[0].factor: expected a value, found none"),
        ({"kind": "gpu", "node": "node-003", "gpu": 8, "factor": 0.5}, "faults[0].gpu: expected 0 to 7"),
        (
            {"kind": "intermittent", "node": "node-003", "probability": 2, "factor": 0.5},
            "faults[0].probability: expected less than or equal to 1",
        ),
        ({"kind": "link", "between": ["node-001"], "factor": 0.5}, "faults[0].between: expected"),
        ({"kind": "link", "between": ["node-001", "node-001"], "factor": 0.5}, "two different nodes"),
        ({"kind": "link", "between": ["node-001", "node-77"], "factor": 0.5}, "faults[0].between[1]: expected a node"),
        ({"kind": "boundary", "between": ["rack-1", "rack-9"], "factor": 0.5}, "faults[0].between[1]: expected a dom"),
        ({"kind": "boundary", "between": ["rack-1", "block-1"], "factor": 0.5}, "different domains of one level"),
        ({"kind": "scale", "nodes": 0, "factor": 0.5}, "faults[0].nodes: expected greater than or equal to 1"),
        ({"kind": "lost", "node": "node-003"}, "faults[0].at: expected a value"),
        ({"kind": "lost", "node": "node-003", "at": "-5s"}, "faults[0].at: expected a duration"),
        ({"kind": "health", "node": "node-003", "at": "60s"}, "faults[0].condition: expected a value"),
        ({"kind": "transient", "case": "nccl-allreduce"}, "did you mean 'nccl-all-reduce'?"),
        ({"kind": "transient", "case": "nccl-all-reduce", "times": 0}, "faults[0].times: expected greater"),
        ({"kind": "transport", "node": "node-003", "effect": "tcp"}, "faults[0].effect: expected one of socket"),
        ({"kind": "systemic"}, "faults[0].factor: expected a value"),
    ],
)
def test_impossible_faults_are_refused_with_their_path(tmp_path: Path, fault: dict[str, Any], message: str) -> None:
    content = {"nodes": 16, "topology": {"block": 8, "rack": 4}, "faults": [fault]}
    assert message in refused(tmp_path, content)


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    text = refused(tmp_path, {"nodes": 16, "faults": [{**SLOW, "factor": 2}, SLOW, {"kind": "lost", "at": 5}]})
    assert "faults[0].factor" in text
    assert "faults[2].node" in text


def test_a_message_lists_the_keys_of_that_kind_only(tmp_path: Path) -> None:
    text = refused(tmp_path, {"nodes": 16, "faults": [{"kind": "lost", "node": "node-003", "at": 5, "when": 3}]})
    assert "expected one of at, kind, node" in text


def test_a_missing_or_broken_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no-such"):
        SimulatedCluster.from_file(tmp_path / "no-such.yaml", shipped())
    assert "FILE" in refused(tmp_path, "nodes: [1, 2")
    assert "expected a mapping" in refused(tmp_path, "- nodes")
    assert "expected each key once" in refused(tmp_path, "nodes: 4\nnodes: 5\n")
    assert "nodes: expected a value, found none" in refused(tmp_path, "seed: 4\n")


def test_a_moment_may_be_the_start_of_the_session() -> None:
    for at in (0, "0s", "0"):
        fabric(4, faults=[{"kind": "lost", "node": "node-003", "at": at}])
