"""The local cluster: what its nodes are, and how a workload becomes processes on this machine.

A node is either this machine with all its GPUs (NCCL between them) or one of N groups of CPU processes (gloo over the
loopback interface): each group has ranks of its own, so that a fault of one is seen as the fault of a node.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cluster.local.gpus import Gpu, find_gpus
from cluster.local.rank import Rank
from cluster.local.supervisor import Supervisor
from cluster.model import Inventory, Node, Run, RunState, Workload
from cluster.protocol import ClusterError, Progress, Stop

ATTEMPTS = 3
"""Launches of one run: a port that was free when we asked may be taken before rank 0 listens on it."""

_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
_NOT_HANDED_ON = (
    "TORCHELASTIC_",
    "PYTEST_",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
)
"""Variables of a launcher or a test that we run under: a rank would take them for its own."""


class LocalCluster:
    """This machine. Implements `cluster.Cluster`."""

    name = "local"

    def __init__(
        self,
        local_nodes: int = 4,
        gpus: Literal["auto", "none"] = "auto",
        *,
        find: Callable[[], tuple[Gpu, ...]] = find_gpus,
        programs: Path | None = None,
    ) -> None:
        """With `gpus` "auto" the GPUs that `find` sees are the one node; without any there are `local_nodes` nodes.

        `programs` is where a workload's program lies, by default `workloads/`. Raises `ClusterError` for no nodes.
        """
        if local_nodes < 1:
            raise ClusterError(f"--local-nodes: expected at least 1 node, found {local_nodes}")
        self._inventory = _inventory(find() if gpus == "auto" else (), local_nodes)
        self._names = {node.name for node in self._inventory.nodes}
        self._programs = programs
        self._closed = threading.Event()
        self._ports = Ports()

    def nodes(self) -> Inventory:
        """This machine's GPUs as one node, or `local-0` … of CPU processes."""
        return self._inventory

    def run(self, workload: Workload, stop: Stop, progress: Progress) -> Run:
        """Start one process a rank, wait for the end, leave none behind.

        Raises `ClusterError` for a node that is not ours and where PyTorch is missing. The calling thread must live as
        long as the run: the ranks are bound to it.
        """
        self._check(workload)
        started = time.time()
        if stop:
            return Run(workload, RunState.CANCELLED, stop.reason, started=started, ended=started)
        run = self._launch(workload, stop, progress, started)
        for _ in range(ATTEMPTS - 1):
            if run.state is not RunState.FAILED or not any("EADDRINUSE" in exit_.reason for exit_ in run.exits):
                break
            run = self._launch(workload, stop, progress, started)
        return run

    def close(self) -> None:
        """End the runs that are still on."""
        self._closed.set()

    def _check(self, workload: Workload) -> None:
        unknown = [name for name in workload.nodes if name not in self._names]
        if unknown:
            ours = ", ".join(node.name for node in self._inventory.nodes)
            raise ClusterError(f"{workload.name}: no node {', '.join(unknown)} on this machine, which has {ours}")
        if workload.framework == "torch" and importlib.util.find_spec("torch") is None:
            raise ClusterError(
                f"PyTorch is not installed for {sys.executable}, and the local cluster runs its programs with it: "
                "pip install 'clusterproof[local]'"
            )
        if (
            workload.framework == "torch"
            and workload.backend == "nccl"
            and _versions().get("torch", "").endswith("+cpu")
        ):
            raise ClusterError(
                f"this machine has GPUs, but the PyTorch of {sys.executable} is built for CPUs only: "
                "install a build for CUDA, or ask for the option backend: gloo, which certifies no GPU"
            )

    def _launch(self, workload: Workload, stop: Stop, progress: Progress, started: float) -> Run:
        supervisor = Supervisor(workload, stop, progress, self._closed.is_set)
        port = self._ports.take()
        scratch = tempfile.mkdtemp(prefix="clusterproof-")
        try:
            command = _command(workload, self._programs)
            progress(f"starting {workload.world_size} ranks")
            for rank in range(workload.world_size):
                env = rank_env(workload, rank, port) | {"TMPDIR": scratch}
                supervisor.add(Rank(rank, workload.node_of(rank), command, env))
            state, message = supervisor.watch()
        except OSError as error:
            supervisor.end()
            state, message = RunState.LAUNCH_FAILED, str(error)
        except BaseException:
            supervisor.end()
            raise
        finally:
            self._ports.give(port)
            shutil.rmtree(scratch, ignore_errors=True)
        return Run(
            workload=workload,
            state=state,
            message=message,
            exits=supervisor.exits(),
            log=bytes(supervisor.log),
            tails=supervisor.tails(),
            started=started,
            ended=time.time(),
            durations={
                "starting": supervisor.starting_s,
                "running": max(0.0, supervisor.seconds - supervisor.starting_s),
            },
            versions=_versions(),
            leftovers=tuple(supervisor.leftovers),
        )


class Ports:
    """Free TCP ports of the loopback interface, never the same one for two runs at a time."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self) -> int:
        """A port that nobody listens on."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            with self._lock:
                if port not in self._taken:
                    self._taken.add(port)
                    return port

    def give(self, port: int) -> None:
        """The run is over."""
        with self._lock:
            self._taken.discard(port)


def rank_env(workload: Workload, rank: int, port: int) -> dict[str, str]:
    """The environment of one rank: ours, what PyTorch's `env://` needs, and the workload's own, which wins."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
    settings = {
        "GLOO_SOCKET_IFNAME": _LOOPBACK,
        "NCCL_SOCKET_IFNAME": _LOOPBACK,
        "OMP_NUM_THREADS": "1",  # ranks share the machine
        "PYTHONUNBUFFERED": "1",  # what a rank printed before it died must be seen
        "RANK": str(rank),
        "WORLD_SIZE": str(workload.world_size),
        "LOCAL_RANK": str(rank % workload.ranks_per_node),
        "LOCAL_WORLD_SIZE": str(workload.ranks_per_node),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "CLUSTERPROOF_NODE": workload.node_of(rank),
        "CLUSTERPROOF_NODES": ",".join(workload.nodes),
    }
    return {**ours, **settings, **workload.env}


def _command(workload: Workload, programs: Path | None) -> list[str]:
    """What starts one rank; raises OSError for a program or a framework that cannot be started here."""
    if workload.framework == "exec":
        return [*shlex.split(workload.program), *workload.arguments]
    if workload.framework != "torch":
        raise OSError(f"framework {workload.framework!r} cannot run on the local cluster, which starts torch and exec")
    program = (programs or _programs()) / workload.program
    if not program.is_file():
        raise FileNotFoundError(f"no program {workload.program} in {program.parent}")
    return [sys.executable, str(program), *workload.arguments]


def _programs() -> Path:
    """Where `workloads/` lies, without importing what runs on nodes."""
    spec = importlib.util.find_spec("workloads")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise FileNotFoundError("the programs that run on nodes (workloads/) are not installed")
    return Path(places[0])


def _inventory(gpus: tuple[Gpu, ...], local_nodes: int) -> Inventory:
    host = socket.gethostname()
    if gpus:
        identity = {"hostname": host, "gpus": [gpu.uuid for gpu in gpus]}
        node = Node("local-0", accelerators=len(gpus), product=gpus[0].product, identity=identity)
        return Inventory((node,), detected_by="GPUs of this machine", versions=_versions() | {"driver": gpus[0].driver})
    nodes = tuple(Node(f"local-{index}", identity={"hostname": host}) for index in range(local_nodes))
    return Inventory(nodes, detected_by="CPU processes of this machine", versions=_versions())


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "kernel": platform.release()}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        versions["torch"] = importlib.metadata.version("torch")
    return versions
