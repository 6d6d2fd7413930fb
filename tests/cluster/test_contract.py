from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import catalog
from cluster import Cluster, Workload
from cluster.local import LocalCluster
from cluster.simulated import SimulatedCluster
from tests.cluster.contract import ClusterContract, Lab

HERE = Path(__file__).parent
MARK = str(os.getpid())
"""In the environment of what we start, to find it again; other workers of pytest-xdist have theirs."""


class LocalLab:
    """Real processes of a stand-in program."""

    can = frozenset({"slow"})

    def cluster(self, fault: str = "", node: str = "") -> Cluster:  # noqa: ARG002 - the fault sits in the workload
        return LocalCluster(local_nodes=4, gpus="none", programs=HERE)

    def workload(self, nodes: Sequence[str], name: str = "contract", fault: str = "", node: str = "") -> Workload:
        kind = {"crash": "kill", "hang": "hang", "slow": "slow"}.get(fault)
        broken = {"CLUSTERPROOF_FAULT": f"{kind}:node={node}"} if kind else {}
        return Workload(
            name=name,
            case="contract",
            entry="stand-in",
            framework="torch",
            program="absent.py" if fault == "absent" else "ranks.py",
            nodes=tuple(nodes),
            ranks_per_node=2,
            backend="gloo",
            env={"CONTRACT": MARK, **broken},
            stall_limit_s=1.0 if fault == "hang" else 60.0,
        )

    def processes(self) -> list[str]:
        """Processes that carry the environment of our ranks, once those that were killed had time to vanish."""
        deadline = time.monotonic() + 5
        while (found := self._seen()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def running(self) -> bool:
        """Whether any is there now."""
        return bool(self._seen())

    def _seen(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"\0CONTRACT={MARK}\0".encode() in (folder / "environ").read_bytes():
                    found.append(folder.name)
            except OSError:
                continue
        return found


class SimulatedLab:
    """Eight modelled nodes in two racks."""

    can: frozenset[str] = frozenset()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._catalog = catalog.load()

    def cluster(self, fault: str = "", node: str = "") -> Cluster:
        faults = [{"kind": "node", "node": node, "effect": fault}] if fault else []
        path = self._folder / f"simulation-{fault}.yaml"
        path.write_text(yaml.safe_dump({"nodes": 8, "topology": {"rack": 4}, "faults": faults}), encoding="utf-8")
        return SimulatedCluster.from_file(path, self._catalog)

    def workload(
        self,
        nodes: Sequence[str],
        name: str = "contract",
        fault: str = "",
        node: str = "",  # noqa: ARG002 - the fault sits in the cluster
    ) -> Workload:
        entry = self._catalog.entry("nccl-all-reduce")
        return Workload(
            name=name,
            case="contract",
            entry=entry.name,
            framework=str(entry.framework),
            program="absent.py" if fault == "absent" else entry.program,
            nodes=tuple(nodes),
            ranks_per_node=8,
            backend="nccl",
            options=entry.resolve_options({"maxBytes": "1G"}),
            collective="" if fault == "absent" else "all_reduce",
            traffic="ring",
        )

    def processes(self) -> list[str]:
        return []


class TestLocal(ClusterContract):
    @pytest.fixture
    def lab(self) -> Lab:
        return LocalLab()


class TestSimulated(ClusterContract):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> Lab:
        return SimulatedLab(tmp_path)
