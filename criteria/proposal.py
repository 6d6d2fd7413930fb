"""A reference profile out of a healthy fleet's own results, or a refusal that says what is wrong with the sample.

A profile made from a sick or mixed fleet would certify its sickness for ever, so a group of results is refused when it
is small, when it falls into two populations, when its spread is wide, or when its values prove another algorithm.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from catalog import FigureRow, Profile, format_size
from criteria.expectation import another_algorithm
from criteria.metrics import metric
from criteria.model import Conditions, CriteriaError

FEWEST = 5
"""Results of one shape below which nothing is proposed."""
WIDEST = 0.05
"""Widest spread (1.4826 x MAD / median) of a fleet that counts as healthy."""
GAP = 0.03
"""Two populations: a gap of at least this share of the median …"""
GAP_SPREAD = 4.0
"""… that is also this many times the usual distance of neighbours inside the populations."""
SMALLEST_PART = 0.15
"""… and at least this share of the results (two at least) on either side: fewer are outliers, not a population."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One passed run: its conditions, the metric's value, and the message size it was taken at."""

    conditions: Conditions
    value: float
    size: int | None = None
    metric: str = "busBandwidthGBps"


@dataclass(frozen=True, slots=True)
class _Group:
    metric: str
    collective: str | None
    layer: str
    nodes: int
    gpus_per_node: int
    size: int | None
    rails: int
    gbps: float
    algorithm: str
    nvlink_domain: int

    @property
    def words(self) -> str:
        at = f" at {format_size(self.size)}" if self.size else ""
        return f"{self.collective or self.metric}, {self.layer}, {self.nodes}x{self.gpus_per_node}{at}"


def propose_profile(name: str, samples: Iterable[Sample], *, date: str, source: str, transport: str) -> Profile:
    """A profile called `name` with one row a shape: the median of its results.

    `date` is when they were measured, `source` where (report, cluster). Raises `CriteriaError` listing every reason to
    refuse: no results, several products or fabric classes, and for each shape a small, bimodal or wide sample.
    """
    found = tuple(samples)
    problems = _mixed(found)
    healthy: list[tuple[_Group, list[float]]] = []
    for group, members in _grouped(found).items():
        values = [sample.value for sample in members]
        problem = refusal(values) or another_algorithm(members[0].conditions, statistics.median(values))
        if problem:
            problems.append(f"{group.words}: {problem}")
        else:
            healthy.append((group, values))
    if problems:
        raise CriteriaError("\n".join(f"no profile proposed: {problem}" for problem in problems))
    first = found[0].conditions
    return Profile(
        name=name,
        description=f"Proposed from {len(found)} results of {source}",
        accelerators=(first.accelerator.name,) if first.accelerator else ("unknown",),
        platforms=(first.platform,),
        rails=first.rails,
        gbps=first.gbps,
        nvlink_domain=first.accelerator.nvlink_domain if first.accelerator else 1,
        transport=transport,
        program=first.program,
        confidence="high",
        rows=tuple(_row(group, values, date, source) for group, values in healthy),
    )


def _mixed(samples: Sequence[Sample]) -> list[str]:
    """What keeps the samples from being one fabric class."""
    if not samples:
        return ["no passed results to take it from"]
    problems = []
    if any(sample.conditions.backend == "gloo" for sample in samples):
        problems.append("gloo between CPU processes says nothing about GPUs")
    products = {sample.conditions.accelerator.name if sample.conditions.accelerator else "" for sample in samples}
    if len(products) > 1 or "" in products:
        named = ", ".join(sorted(product or "unknown" for product in products))
        problems.append(f"expected results of one known product, found {named}")
    if any(sample.conditions.layer == "fabric" and not sample.conditions.gbps for sample in samples):
        problems.append("expected the NICs a node and their line rate, found none in the inventory")
    classes = {(sample.conditions.rails, sample.conditions.gbps) for sample in samples}
    if len(classes) > 1:
        named = ", ".join(f"{rails}x{gbps:g} Gb/s" for rails, gbps in sorted(classes))
        problems.append(f"expected results of one fabric class, found {named}")
    return problems


def _grouped(samples: Iterable[Sample]) -> dict[_Group, list[Sample]]:
    groups: dict[_Group, list[Sample]] = {}
    for sample in samples:
        given = sample.conditions
        fabric = given.layer == "fabric"
        group = _Group(
            sample.metric,
            given.collective,
            given.layer,
            given.nodes,
            given.gpus_per_node,
            sample.size,
            given.rails if fabric else 0,
            given.gbps if fabric else 0.0,
            given.algorithm,
            given.nvlink_domain if fabric else 1,
        )
        groups.setdefault(group, []).append(sample)
    return groups


def refusal(values: Sequence[float]) -> str:
    """Why these values are no healthy sample, or the empty string."""
    if len(values) < FEWEST:
        return f"expected at least {FEWEST} results, found {len(values)}"
    median = statistics.median(values)
    if median <= 0:
        return f"expected values above 0, found a median of {median:g}"
    if parts := two_populations(values):
        low, high = parts
        return (
            f"two populations, {len(low)} around {statistics.median(low):.4g} and {len(high)} around "
            f"{statistics.median(high):.4g}: find what differs between them first"
        )
    spread = 1.4826 * statistics.median(abs(value - median) for value in values) / median
    if spread > WIDEST:
        return f"the spread of {spread:.1%} around {median:.4g} is wider than {WIDEST:.0%}: no healthy fleet"
    return ""


def two_populations(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The two populations at the widest gap, or None where the values are one (limits above)."""
    ordered = sorted(values)
    gaps = [high - low for low, high in itertools.pairwise(ordered)]
    if len(gaps) < 3:
        return None
    split = max(range(len(gaps)), key=gaps.__getitem__) + 1
    low, high = ordered[:split], ordered[split:]
    least = max(2, SMALLEST_PART * len(ordered))
    others = sorted(gap for index, gap in enumerate(gaps) if index != split - 1)
    usual = statistics.fmean(others)
    wide = gaps[split - 1] >= GAP * statistics.median(ordered) and gaps[split - 1] >= GAP_SPREAD * usual
    return (low, high) if wide and min(len(low), len(high)) >= least else None


def _row(group: _Group, values: Sequence[float], date: str, source: str) -> FigureRow:
    return FigureRow(
        metric=group.metric,
        unit=metric(group.metric).unit,
        value=round(statistics.median(values), 3),
        collective=group.collective,
        layer=group.layer,
        nodes=group.nodes,
        gpus_per_node=group.gpus_per_node,
        size=group.size,
        rails=group.rails,
        gbps=group.gbps,
        algorithm=group.algorithm,
        nvlink_domain=group.nvlink_domain,
        kind="measured",
        conditions=f"median of {len(values)} results, {min(values):.4g} to {max(values):.4g}",
        source=source,
        date=date,
    )


def profile_yaml(profile: Profile) -> str:
    """The profile as a file for a `--catalog` directory."""
    data: dict[str, Any] = profile.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump({"profiles": [data]}, sort_keys=False, allow_unicode=True)
