"""What a cluster is to the suite: plain, frozen data that every kind of cluster gives and takes.

A `Workload` is concrete (no option left open), so that it can be rendered, launched, hashed and compared; a `Run` is
everything a launched workload left behind. Nothing here knows how either came about: the local machine, the model of
a fabric and Kubernetes all speak in these words, and the reports keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: what it is called, what it carries and where it stands."""

    name: str
    accelerators: int = 0
    product: str = ""
    """The accelerator's product as the GPU label says it, `NVIDIA-H100-80GB-HBM3`; empty for a CPU node."""
    platform: str = "onprem"
    topology: tuple[tuple[str, str], ...] = ()
    """(level, domain) pairs, outermost first: `(("block", "block-0"), ("rack", "rack-5"))`."""
    nvlink_domain: str = ""
    """Name of the NVLink domain that spans nodes; empty where NVLink ends at the node."""
    nics: int = 0
    """NICs of the accelerator fabric (rails); 0 = not known."""
    nic_gbps: float = 0.0
    """Line rate of one of them in Gb/s; 0 = not known."""
    identity: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """What a repair needs: providerID, systemUUID, bootID, kernel …"""
    labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the domains the node stands in, outermost first."""
        return tuple(domain for _, domain in self.topology)


@dataclass(frozen=True, slots=True)
class Excluded:
    """A node of the target that will not be tested, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """The snapshot of the cluster that one session works with."""

    nodes: tuple[Node, ...]
    """In topology order (see `topology_order`)."""
    excluded: tuple[Excluded, ...] = ()
    platform: str = "onprem"
    detected_by: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Workload:
    """A concrete distributed program on concrete nodes: all that a cluster needs to launch it."""

    name: str
    """Deterministic and unique in the session: case id, group and attempt; a DNS label of at most 52 characters."""
    case: str
    entry: str
    framework: str
    program: str
    """A file of `workloads/` for `torch`, a command for `exec` and `mpi`."""
    nodes: tuple[str, ...]
    """In rank order: ranks 0 … ranks_per_node-1 run on the first."""
    ranks_per_node: int
    backend: str
    """`nccl` or `gloo`."""
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    options: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """The entry's options, resolved: `maxBytes` in bytes, `numCycles` …"""
    collective: str = ""
    traffic: str = "none"
    layer: str = "fabric"
    mnnvl: bool | None = None
    """Multi-node NVLink on, off, or as the platform has it (None)."""
    rail: int | None = None
    """Use only this NIC (0-based), or all (None)."""
    attempt: int = 0
    time_limit_s: float = 3600.0
    start_limit_s: float = 600.0
    stall_limit_s: float = 300.0
    image: str = ""
    resources: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """Settings for one kind of cluster only (gang scheduler, priority class …)."""

    @property
    def world_size(self) -> int:
        """Ranks in total."""
        return len(self.nodes) * self.ranks_per_node

    def node_of(self, rank: int) -> str:
        """The node that `rank` runs on."""
        return self.nodes[rank // self.ranks_per_node]


class RunState(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A rank exited non-zero."""
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    """No new output for the stall limit."""
    UNHEALTHY = "unhealthy"
    """Stopped early: a node of the group showed a hardware fault (`events`)."""
    LOST = "lost"
    """A node of the group went away; nobody is accused."""
    UNSCHEDULABLE = "unschedulable"
    LAUNCH_FAILED = "launch_failed"
    CANCELLED = "cancelled"
    """We stopped it: deadline, signal, `-x`."""


@dataclass(frozen=True, slots=True)
class RankExit:
    """How one rank ended. `code` is None where it was still running, < 0 for a signal (as subprocess has it)."""

    rank: int
    node: str
    code: int | None
    reason: str = ""
    tail: str = ""
    """The last lines it printed."""
    at: float = 0.0
    """Seconds since the start of the run."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """What happened to a node while a run was on: kind `health` (hardware evidence), `lost`, `invalid`."""

    node: str
    kind: str
    message: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a launched workload left behind."""

    workload: Workload
    state: RunState
    message: str = ""
    exits: tuple[RankExit, ...] = ()
    log: bytes = b""
    """Complete standard output of rank 0's node (the leader), with standard error in it."""
    tails: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Node → last lines of its output, for the nodes that failed."""
    events: tuple[NodeEvent, ...] = ()
    started: float = 0.0
    """Seconds since the epoch (virtual seconds since the start of the session in a simulation)."""
    ended: float = 0.0
    durations: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    """Seconds by phase: `queued`, `pulling`, `starting`, `running`."""
    versions: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    leftovers: tuple[str, ...] = ()
    """What clean-up could not remove, in words."""

    @property
    def seconds(self) -> float:
        """From launch to end."""
        return max(0.0, self.ended - self.started)
