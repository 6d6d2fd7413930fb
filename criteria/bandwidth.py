"""The bandwidth of a communication case where its user set no bound: against the healthy figure, or not decided.

gloo between CPU processes says nothing about GPUs: the value is shown and judged only by explicit thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog import Catalog, format_size
from criteria.absolute import Bound
from criteria.expectation import Expectation, another_algorithm, expected_busbw, shape
from criteria.metrics import METRICS, largest_size
from criteria.model import Check, Conditions, Reason
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
    sharp = conditions.layer == "fabric" and measurement.transport.get("collnet_sharp") is True
    expected = expected_busbw(catalog, conditions, size, sharp=sharp)
    if expected is not None:
        yield _against(value, size, expected, tolerance, conditions)
    elif not any(bound.metric.bandwidth for bound in applied):
        yield _undecided(value, size, conditions)


def _against(value: float, size: int, expected: Expectation, tolerance: float, conditions: Conditions) -> Check:
    floor = tolerance * expected.value
    ok = value >= floor
    text = (
        f"busBandwidthGBps {value:.4g} {'>=' if ok else '<'} {floor:.4g} GB/s at {format_size(size)} "
        f"(floor = {tolerance:g} x {expected.value:.4g}; {expected.brief})"
    )
    if note := another_algorithm(conditions, value):
        text += f"; {note}"
    return Check(
        _BUSBW.name,
        ok=ok,
        text=text,
        value=value,
        unit=_BUSBW.unit,
        expected=expected.value,
        floor=floor,
        tolerance=tolerance,
        source=expected.source,
        margin=value / floor - 1,
        size=size,
        reason=Reason.THRESHOLD_VIOLATION,
    )


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
