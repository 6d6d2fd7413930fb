"""Figures where the user set no bound: bus bandwidth against the healthy figure, single GPUs against their profile.

A communication case on GPUs that nothing applies to is not decided. gloo between CPU processes says nothing about GPUs:
the value is shown and judged only by explicit thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catalog import Catalog, format_size
from criteria.absolute import Bound
from criteria.expectation import (
    NODE_METRICS,
    Expectation,
    another_algorithm,
    expected_busbw,
    expected_of_node,
    shape,
)
from criteria.metrics import METRICS, Metric, largest_size
from criteria.model import Check, Conditions, Reason
from criteria.training import said
from measure import Measurement

_BUSBW = METRICS["busBandwidthGBps"]


def built_in(
    measurement: Measurement, conditions: Conditions, catalog: Catalog, tolerance: float, applied: Sequence[Bound]
) -> Iterator[Check]:
    """The bandwidth check that holds without any threshold, where `applied` does not replace it."""
    value, size = _BUSBW.read(measurement, None), largest_size(measurement)
    if not conditions.collective or value is None or size is None:
        return
    if any(bound.metric is _BUSBW and bound.size in {None, size} for bound in applied):
        return
    if conditions.backend == "gloo":
        yield _shown(value, size)
        return
    expected = _expected(measurement, conditions, catalog, size)
    if expected is not None:
        yield _against(value, size, expected, tolerance, conditions)
    elif not any(bound.metric.bandwidth for bound in applied):
        yield _undecided(value, size, conditions)


def beside_healthy(
    check: Check, measurement: Measurement, conditions: Conditions, catalog: Catalog, tolerance: float
) -> Check:
    """A missed threshold on bus bandwidth says so where the value is healthy for its group, size and layer."""
    size = check.size if check.size is not None else largest_size(measurement)
    too_high = check.margin is not None and check.floor is not None and (check.value or 0.0) > check.floor
    if check.metric != _BUSBW.name or check.ok is not False or check.value is None or size is None or too_high:
        return check
    expected = _expected(measurement, conditions, catalog, size)
    if expected is None or check.value < tolerance * expected.value:
        return check
    figure = f"the healthy figure for this group is about {expected.value:.3g} GB/s"
    if check.floor is None:
        words = f"{figure}: the value reaches {check.value / expected.value:.0%} of it"
    elif check.floor > expected.value:
        words = f"{figure}: the threshold lies above it"
    else:
        words = f"{figure}: the threshold asks for more than {tolerance:.0%} of it"
    return replace(check, text=f"{check.text} ({words})")


def _expected(measurement: Measurement, conditions: Conditions, catalog: Catalog, size: int) -> Expectation | None:
    """The healthy figure of the group; over gloo there is none."""
    if conditions.backend == "gloo":
        return None
    sharp = conditions.layer == "fabric" and measurement.transport.get("collnet_sharp") is True
    return expected_busbw(catalog, conditions, size, sharp=sharp)


def _against(value: float, size: int, expected: Expectation, tolerance: float, conditions: Conditions) -> Check:
    note = another_algorithm(conditions, value)
    return _floored(_BUSBW, value, size, expected, tolerance=tolerance, note=note)


def _floored(
    metric: Metric, value: float, size: int | None, expected: Expectation, *, tolerance: float, note: str = ""
) -> Check:
    """The value against tolerance x expectation, a lower bound."""
    floor = tolerance * expected.value
    ok = value >= floor
    at = f" at {format_size(size)}" if size is not None else ""
    text = (
        f"{metric.name} {value:.4g} {'>=' if ok else '<'} {floor:.4g} {metric.unit}{at} "
        f"(floor = {tolerance:g} x {expected.value:.4g}; {expected.brief}){'; ' if note else ''}{note}"
    )
    return Check(
        metric.name,
        ok=ok,
        text=text,
        value=value,
        unit=metric.unit,
        expected=expected.value,
        floor=floor,
        tolerance=tolerance,
        source=expected.source,
        margin=value / floor - 1,
        size=size,
        reason=Reason.THRESHOLD_VIOLATION,
    )


def node_figures(
    measurement: Measurement, conditions: Conditions, catalog: Catalog, tolerance: float, applied: Sequence[Bound]
) -> Iterator[Check]:
    """GEMM, memory, host link and single-NIC figures against the product's profile, where `applied` has no bound."""
    if conditions.collective or conditions.accelerator is None:
        return
    bound = {each.metric.name for each in applied}
    for name in NODE_METRICS:
        if name in bound:
            continue
        value = METRICS[name].read(measurement, None)
        expected = expected_of_node(catalog, conditions, name, str(said(measurement, "precision") or ""))
        if value is not None and expected is not None:
            yield _floored(METRICS[name], value, None, expected, tolerance=tolerance)


def _shown(value: float, size: int) -> Check:
    text = (
        f"correct and complete over gloo: certifies no GPU; busBandwidthGBps {value:.4g} GB/s at {format_size(size)} "
        "is shown, not judged"
    )
    return Check(_BUSBW.name, ok=True, text=text, value=value, unit=_BUSBW.unit, source="shown: gloo", size=size)


def _undecided(value: float, size: int, conditions: Conditions) -> Check:
    why = "one rank moves nothing" if conditions.ranks < 2 else f"nothing is known of this fabric ({shape(conditions)})"
    text = (
        f"busBandwidthGBps {value:.4g} GB/s at {format_size(size)} was judged by nothing: {why}; set a threshold on "
        "busBandwidthGBps, or add the product's figures with --catalog"
    )
    return Check(_BUSBW.name, ok=None, text=text, value=value, unit=_BUSBW.unit, source="none", size=size)
