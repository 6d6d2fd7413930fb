"""What bandwidth a group should reach, where that number comes from, and the floor that follows.

In order: the reference profiles of the fabric class, the healthy figure of the accelerator (published, or derived from
a published one), the share of the physical bound that other products reach. What is expected is for exactly this shape:
collective, layer, nodes, GPUs, NICs and message size; the source says how it got there.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog import Catalog, Figure, Group, Profile, derive, fabric_bound, healthy_busbw
from criteria.model import Conditions

NODE_METRICS = ("gemmTFLOPs", "hbmBandwidthGBps", "pcieBandwidthGBps", "rdmaBandwidthGbps")
"""What one GPU or NIC does by itself."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected bus bandwidth in GB/s and its origin: one phrase, and the whole story."""

    value: float
    brief: str
    source: str


def expected_busbw(catalog: Catalog, conditions: Conditions, size: int, *, sharp: bool = False) -> Expectation | None:
    """The expectation for the run's shape at `size` bytes; None where nothing is known of its fabric.

    `sharp`: the run's own log says that the network reduced.
    """
    if not conditions.collective or conditions.ranks < 2:
        return None
    group = Group(
        collective=conditions.collective,
        layer=conditions.layer,
        nodes=conditions.nodes,
        gpus_per_node=conditions.gpus_per_node,
        size=size,
        rails=conditions.rails,
        gbps=conditions.gbps,
        algorithm="sharp" if sharp else conditions.algorithm,
        nvlink_domain=conditions.nvlink_domain if conditions.layer == "fabric" else 1,
    )
    return _from_profiles(catalog, conditions, group) or _from_healthy(conditions, group)


def _from_profiles(catalog: Catalog, conditions: Conditions, group: Group) -> Expectation | None:
    """By the nearest row of all profiles of this fabric class."""
    acc = conditions.accelerator
    if acc is None:
        return None
    profiles = [
        profile
        for profile in catalog.profiles.values()
        if profile.speaks_of(acc.name, conditions.platform, group.layer, group.rails, group.gbps)
    ]
    # The profile of the platform itself comes first: of rows that are equally near, the first is taken.
    profiles.sort(key=lambda profile: not profile.platforms)
    best: tuple[tuple[float, ...], Profile, Figure] | None = None
    for profile in profiles:
        figure = derive(acc, profile.rows, group)
        if figure is None:
            continue
        near = min(group.distance(row) for row in profile.rows if group.is_of(row))
        if best is None or near < best[0]:
            best = near, profile, figure
    if best is None:
        return None
    _, profile, figure = best
    named = f"profile {profile.name}"
    source = f"{named} ({profile.program}), {_origin(figure, conditions)}"
    return Expectation(figure.value, f"{named}, {figure.kind}, {figure.source}", source)


def _from_healthy(conditions: Conditions, group: Group) -> Expectation | None:
    figure = healthy_busbw(
        conditions.accelerator,
        collective=group.collective,
        layer=group.layer,
        nodes=group.nodes,
        gpus_per_node=group.gpus_per_node,
        size=group.size,
        rails=group.rails,
        gbps=group.gbps,
        algorithm=group.algorithm,
        nvlink_domain=group.nvlink_domain,
    )
    if figure is None:
        return None
    product = conditions.accelerator.name if conditions.accelerator else "unknown product"
    return Expectation(figure.value, f"{product}, {figure.kind}, {figure.source}", _origin(figure, conditions))


def expected_of_node(catalog: Catalog, conditions: Conditions, metric: str, precision: str) -> Expectation | None:
    """What one GPU, its memory, its host link or one NIC reaches; None where no profile says it.

    `precision` of a GEMM: without it nothing is expected, because bf16 and fp8 differ by two.
    """
    acc = conditions.accelerator
    if acc is None:
        return None
    for profile in catalog.profiles.values():
        for row in profile.rows:
            if (
                row.metric == metric
                and row.precision == precision
                and profile.speaks_of(acc.name, conditions.platform, row.layer, conditions.rails, conditions.gbps)
            ):
                brief = f"profile {profile.name}, {row.kind}, {row.source}"
                return Expectation(row.value, brief, f"{brief}; {row.conditions}, {row.date}")
    return None


def shape(conditions: Conditions) -> str:
    """`h100, fabric, 8x8, 8x400 Gb/s`."""
    product = conditions.accelerator.name if conditions.accelerator else "unknown product"
    nics = f", {conditions.rails}x{conditions.gbps:g} Gb/s" if conditions.layer == "fabric" and conditions.gbps else ""
    return f"{product}, {conditions.layer}, {conditions.nodes}x{conditions.gpus_per_node}{nics}"


def _origin(figure: Figure, conditions: Conditions) -> str:
    formula = f": {figure.formula}" if figure.formula else ""
    return f"{shape(conditions)}; {figure.kind}{formula}; from {figure.conditions}, {figure.source}"


def another_algorithm(conditions: Conditions, value: float) -> str:
    """Words for a bus bandwidth above what a ring over the NICs can reach, or the empty string.

    At two nodes NCCL may reduce inside the nodes first (tree, NVLS-tree), and then reports more than the NICs carry:
    such a value proves another algorithm and says little of the fabric.
    """
    if conditions.layer != "fabric" or conditions.nodes < 2 or not conditions.collective:
        return ""
    bound = fabric_bound(
        collective=conditions.collective,
        nodes=conditions.nodes,
        gpus_per_node=conditions.gpus_per_node,
        rails=conditions.rails,
        gbps=conditions.gbps,
        nvlink_domain=conditions.nvlink_domain,
    )
    if bound <= 0 or value <= bound * 1.01:
        return ""
    text = (
        f"above the line rate of {conditions.rails}x{conditions.gbps:g} Gb/s = {bound:.4g} GB/s: another algorithm "
        "than a ring (tree, NVLS-tree or in-network reduction), not proof of a good fabric"
    )
    if conditions.collective == "all_reduce" and conditions.nodes == 2:
        crossed = value * conditions.gpus_per_node / (conditions.ranks - 1)
        text += f"; at least {crossed:.4g} GB/s crossed the NICs; use 4 or more nodes to judge it"
    return text
