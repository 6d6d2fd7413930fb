"""The simulation file as typed data: a fabric, its noise and the faults injected into it.

The keys are those of the file (snake_case, unlike the certification manifest), so a user reads in a message exactly
what stands in the file. What one value or one fault can tell by itself (unknown keys, wrong types, values out of range,
an effect without its factor) is refused here; what needs the whole fabric (names of nodes and domains) in `checks`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from catalog import parse_duration, parse_size

MOST_NODES = 100_000
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LEVEL_NAME = re.compile(r"[a-z][a-z0-9]*")
_ZERO = re.compile(r"0+(\.0*)?(ms|s|m|h)?")


def _node_name(value: str) -> str:
    if not _NODE_NAME.fullmatch(value):
        raise ValueError(f"expected a node name (lower-case letters, digits, '-' and '.'), found {value!r}")
    return value


def _level_name(value: str) -> str:
    if not _LEVEL_NAME.fullmatch(value):
        raise ValueError(f"expected the name of a level such as rack (lower-case letters and digits), found {value!r}")
    return value


def _moment(value: Any) -> float:
    """A duration, except that a moment may also be 0: the start of the session."""
    return 0.0 if not isinstance(value, bool) and _ZERO.fullmatch(str(value)) else parse_duration(value)


def _named(value: Any) -> Any:
    """A count of nodes becomes their names: `node-000` …"""
    if isinstance(value, list | tuple) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_NODES:
        return tuple(f"node-{index:03d}" for index in range(value))
    raise ValueError(f"expected a count from 1 to {MOST_NODES} or a list of node names, found {value!r}")


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"expected each name once, found {twice!r} twice")
    return names


def _or_none(value: Any) -> Any:
    return [] if value is None else value


Text = Annotated[str, Field(strict=True, min_length=1)]
NodeName = Annotated[str, Field(strict=True), AfterValidator(_node_name)]
LevelName = Annotated[str, Field(strict=True), AfterValidator(_level_name)]
NodeNames = Annotated[tuple[NodeName, ...], BeforeValidator(_named), AfterValidator(_distinct)]
Whole = Annotated[int, Field(strict=True)]
Factor = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
"""What is left of a healthy value: 0.5 halves it."""
Moment = Annotated[float, BeforeValidator(_moment)]
"""Virtual seconds since the start of the session."""
Bytes = Annotated[int, BeforeValidator(parse_size)]


class Part(BaseModel):
    """A piece of the file: unknown keys refused, values frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeFault(Part):
    """A fault that shows in every run of its node, whatever the run exercises."""

    kind: Literal["node"]
    node: NodeName
    effect: Literal["slow", "crash", "hang", "corrupt", "nan"]
    factor: Factor | None = None
    size: Bytes | None = None
    """Corrupt only at this message size."""
    step: Annotated[Whole, Field(ge=1)] | None = None
    """Training: the loss is nan from this step on."""
    at: Moment | None = None
    """A hang begins at this virtual time."""

    @model_validator(mode="after")
    def _options_of_the_effect(self) -> Self:
        wanted = {"slow": "factor", "corrupt": "size", "nan": "step", "hang": "at"}
        if self.effect == "slow" and self.factor is None:
            raise ValueError("effect slow needs a factor, for example factor: 0.5")
        for option in ("factor", "size", "step", "at"):
            if getattr(self, option) is not None and wanted.get(self.effect) != option:
                raise ValueError(f"effect {self.effect} takes no {option}")
        return self


class NicFault(Part):
    """A slow NIC: shows where the group's traffic leaves an NVLink domain."""

    kind: Literal["nic"]
    node: NodeName
    factor: Factor
    rail: Annotated[Whole, Field(ge=0)] | None = None


class NvlinkFault(Part):
    """Slow NVLink: shows where another member of the group shares the node's NVLink domain."""

    kind: Literal["nvlink"]
    node: NodeName
    factor: Factor


class IntermittentFault(Part):
    """A fault that comes and goes, drawn anew for each repeat of a run."""

    kind: Literal["intermittent"]
    node: NodeName
    probability: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    factor: Factor


class LinkFault(Part):
    """A slow path between two nodes, on the edges that the traffic uses."""

    kind: Literal["link"]
    between: Annotated[list[NodeName], Field(min_length=2, max_length=2)]
    factor: Factor


class BoundaryFault(Part):
    """A slow path between two domains of one level."""

    kind: Literal["boundary"]
    between: Annotated[list[Text], Field(min_length=2, max_length=2)]
    factor: Factor


class ScaleFault(Part):
    """Every group of at least that many nodes is slow."""

    kind: Literal["scale"]
    nodes: Annotated[Whole, Field(ge=1)]
    factor: Factor


class SystemicFault(Part):
    """Every run is slow: configuration or fabric, no node."""

    kind: Literal["systemic"]
    factor: Factor


class LostFault(Part):
    """The node turns NotReady in the middle."""

    kind: Literal["lost"]
    node: NodeName
    at: Moment


class HealthFault(Part):
    """The node object turns unhealthy in the middle: a condition with hardware evidence."""

    kind: Literal["health"]
    node: NodeName
    at: Moment
    condition: Text
    message: Annotated[str, Field(strict=True)] = ""


class UnschedulableFault(Part):
    """Pods stay Pending on this node."""

    kind: Literal["unschedulable"]
    node: NodeName


class TransientFault(Part):
    """The entry's first runs fail, that often, then never again."""

    kind: Literal["transient"]
    case: Text
    times: Annotated[Whole, Field(ge=1)] = 1


class TransportFault(Part):
    """The node falls back from RDMA to TCP sockets."""

    kind: Literal["transport"]
    node: NodeName
    effect: Literal["socket"]


class GpuFault(Part):
    """One slow GPU of a node."""

    kind: Literal["gpu"]
    node: NodeName
    gpu: Annotated[Whole, Field(ge=0)]
    factor: Factor


Fault = (
    NodeFault
    | NicFault
    | NvlinkFault
    | IntermittentFault
    | LinkFault
    | BoundaryFault
    | ScaleFault
    | SystemicFault
    | LostFault
    | HealthFault
    | UnschedulableFault
    | TransientFault
    | TransportFault
    | GpuFault
)

KINDS: Mapping[str, type[Fault]] = {
    "node": NodeFault,
    "nic": NicFault,
    "nvlink": NvlinkFault,
    "intermittent": IntermittentFault,
    "link": LinkFault,
    "boundary": BoundaryFault,
    "scale": ScaleFault,
    "systemic": SystemicFault,
    "lost": LostFault,
    "health": HealthFault,
    "unschedulable": UnschedulableFault,
    "transient": TransientFault,
    "transport": TransportFault,
    "gpu": GpuFault,
}
"""The kinds of faults by the word in the file."""


class Fabric(Part):
    """NICs of a node and their line rate in Gb/s."""

    rails: Annotated[Whole, Field(ge=1, le=64)]
    gbps: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class Simulation(Part):
    """The whole file; its faults are still raw here, `checks` reads each by its kind."""

    nodes: NodeNames
    """Names, in the order of their numbers."""
    accelerators: Annotated[Whole, Field(ge=1, le=1024)] = 8
    product: Text = "NVIDIA-H100-80GB-HBM3"
    platform: Text = "onprem"
    topology: dict[LevelName, Annotated[Whole, Field(ge=1)]] = {}
    """Level → nodes in one domain of it, outermost first."""
    nvlink_domain: Annotated[Whole, Field(ge=1)] = 1
    fabric: Fabric | None = None
    seed: Whole = 0
    noise: Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)] = 0.01
    faults: Annotated[list[dict[str, Any]], BeforeValidator(_or_none)] = []
