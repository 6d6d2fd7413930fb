"""The words of a verdict: what the judge is told of a run, what it checked, what it found.

The criteria know nothing of clusters; how a run ended arrives here in small classes with the clusters' field names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from catalog import Accelerator


class CriteriaError(ValueError):
    """A criterion cannot be used (unknown metric, bad expression): what, where, remedy. Raised before any launch."""


class Reason(StrEnum):
    """Why a case did not pass, in the words users know."""

    HARDWARE_FAILURE_DETECTED = "HardwareFailureDetected"
    CANCELLED = "Cancelled"
    UNSCHEDULABLE = "Unschedulable"
    LAUNCH_FAILED = "LaunchFailed"
    DATA_CORRUPTION = "DataCorruption"
    LOST = "Lost"
    STALLED = "Stalled"
    TIMED_OUT = "TimedOut"
    WORKLOAD_FAILED = "WorkloadFailed"
    NO_MEASUREMENT = "NoMeasurement"
    THRESHOLD_VIOLATION = "ThresholdViolation"
    PEER_OUTLIER = "PeerOutlier"


GRAVITY = {reason: rank for rank, reason in enumerate(Reason)}
"""Where several reasons hold, the first of this order is the verdict's: the cause before its consequences."""

Outcome = Literal["passed", "failed", "error", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Exit:
    """How one rank ended: `code` None while it was still running, < 0 for a signal; `at` seconds since the start."""

    rank: int
    node: str
    code: int | None
    reason: str = ""
    tail: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a node in the middle: kind `health` (hardware evidence), `lost` or `invalid`."""

    node: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How the run ended; `state` is a `cluster.RunState` value."""

    state: str = "succeeded"
    message: str = ""
    exits: tuple[Exit, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """Everything the judge must know of a run besides its numbers."""

    entry: str
    collective: str | None
    layer: str
    """`scale-up`: one node, or all nodes in one NVLink domain with multi-node NVLink on; else `fabric`."""
    nodes: int
    gpus_per_node: int
    ranks: int
    backend: str
    """`nccl` or `gloo`."""
    accelerator: Accelerator | None = None
    platform: str = "onprem"
    algorithm: str = "any"
    """`ring` where the run was held to it."""
    sizes: tuple[int, ...] = ()
    """The sweep that was asked for, bytes."""
    rails: int = 0
    """NICs a node that the run may use; 0 = not known."""
    gbps: float = 0.0
    """Line rate of one of them, Gb/s; 0 = not known."""
    nvlink_domain: int = 1
    """Nodes in one NVLink domain where the group spans several with multi-node NVLink on; else 1."""
    node_names: tuple[str, ...] = ()
    """The nodes by name: what a baseline knows them by."""
    ended: Ended = field(default_factory=Ended)
    program: str = "collectives.py"
    """What printed the numbers: nccl-tests' figures are not torch's, and only ours ends with a line that proves it."""
    dtype: str = ""
    """Element type that was asked for, in nccl-tests' words; empty = not known."""
    cycles: int = 0
    """Repeats of the sweep that were asked for; 0 = not known."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked, its value, what was expected, why, and by how much it holds or misses."""

    metric: str
    ok: bool | None
    """None: could not be decided."""
    text: str
    value: float | None = None
    unit: str = ""
    expected: float | str | None = None
    floor: float | None = None
    tolerance: float | None = None
    source: str = ""
    margin: float | None = None
    """value / floor - 1 for a lower bound, 1 - value / limit for an upper one; below 0 = missed."""
    size: int | None = None
    reason: Reason | None = None
    """What the check means where it is not ok."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A node that the evidence of one run points at: an order for probes, never a verdict."""

    node: str
    why: str
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's word on one run, with every check it made."""

    outcome: Outcome
    reason: Reason | None
    message: str
    checks: tuple[Check, ...] = ()
    grey: bool = False
    """The deciding value lies within 2 % of its floor: a rerun may fall on the other side."""
    value: float | None = None
    expected: float | None = None
    unit: str = ""
    hints: tuple[Hint, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything checked holds and enough was checked."""
        return self.outcome == "passed"

    @property
    def violations(self) -> tuple[Check, ...]:
        """Every check that failed."""
        return tuple(check for check in self.checks if check.ok is False)
