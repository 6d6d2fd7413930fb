"""The judge: a measurement and its conditions → one verdict that names metric, value, expectation, source and margin.

Made once for a case with all its thresholds, so that an unknown metric or a bad expression stops the session before
anything is launched. Judging fails closed: what is missing or cannot be read is a failure, and a communication case on
GPUs to which no bandwidth criterion applied is inconclusive, because exit codes prove nothing about bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog import Catalog, Threshold
from criteria import always, ended
from criteria.absolute import Bound, bounds
from criteria.bandwidth import beside_healthy, built_in, node_figures
from criteria.diagnostics import diagnosed
from criteria.history import Baseline
from criteria.losses import sane_losses
from criteria.metrics import METRICS, largest_size, metrics
from criteria.model import GRAVITY, Check, Conditions, CriteriaError, Hint, Outcome, Reason, Verdict
from criteria.training import stalls
from criteria.transport import expected_transport
from measure import Measurement

GREY = 0.02
"""A deciding value this close to its floor may fall on the other side when rerun."""


class Judge:
    """Judges the runs of one case by its thresholds, the catalog's figures and the checks that are always on."""

    def __init__(
        self,
        catalog: Catalog,
        thresholds: Sequence[Threshold] = (),
        tolerance: float = 0.8,
        baseline: Baseline | None = None,
    ) -> None:
        """`tolerance`: floor = tolerance x expectation. Raises `CriteriaError` on what it cannot use."""
        if not 0 < tolerance <= 1:
            raise CriteriaError(f"tolerance: expected a number above 0 and up to 1, found {tolerance:g}")
        self._catalog = catalog
        self._tolerance = tolerance
        self._baseline = baseline
        self._asked = bounds(thresholds, "thresholds")
        self._by_entry = {name: bounds(entry.criteria, f"{name}: criteria") for name, entry in catalog.entries.items()}

    def judge(self, measurement: Measurement | None, conditions: Conditions) -> Verdict:
        """The verdict on one run, every violation listed."""
        if (stopped := ended.interrupted(conditions)) is not None:
            outcome: Outcome = "error" if conditions.ended.state in ended.NOT_RUN else "failed"
            found = ended.hints(None, conditions)
            return Verdict(outcome, stopped.reason, stopped.text, (stopped,), hints=found)
        checks = tuple(self._checks(measurement, conditions))
        return verdict(checks, conditions, ended.hints(measurement, conditions))

    def _checks(self, measurement: Measurement | None, conditions: Conditions) -> Iterator[Check]:
        exited = ended.exits(conditions)
        yield exited
        whole = tuple(always.whole(measurement, conditions, measured_entry=conditions.entry in self._by_entry))
        # A run that broke off has said why; that its log is cut is the consequence, not one more finding.
        yield from (check for check in whole if check.ok or exited.ok)
        yield from always.right(measurement, conditions)
        if measurement is None:
            return
        yield from expected_transport(measurement, conditions, self._catalog)
        yield from sane_losses(measurement)
        yield from stalls(measurement)
        yield from diagnosed(measurement)
        # Half a sweep has no largest size: only a run that ended well has numbers to hold against a bound.
        if exited.ok and all(check.ok for check in whole):
            yield from self._bounded(measurement, conditions)

    def _bounded(self, measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
        applied = self._applied(conditions.entry)
        for bound in applied:
            check = bound.check(measurement, conditions)
            yield beside_healthy(check, measurement, conditions, self._catalog, self._tolerance)
        yield from built_in(measurement, conditions, self._catalog, self._tolerance, applied)
        yield from node_figures(measurement, conditions, self._catalog, self._tolerance, applied)
        yield from self._history(measurement, conditions)

    def _history(self, measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
        """Every bandwidth, step time and throughput of the run against the same node set's earlier results."""
        if self._baseline is None or not conditions.node_names:
            return
        for name, value in metrics(measurement).items():
            size = largest_size(measurement) if name == "busBandwidthGBps" else None
            check = self._baseline.compare(conditions.entry, conditions.node_names, name, value, size)
            if check is not None:
                yield check

    def _applied(self, entry: str) -> tuple[Bound, ...]:
        """The entry's own criteria, each replaced by the user's on the same metric and size."""
        asked = {(bound.metric.name, bound.size) for bound in self._asked}
        own = [each for each in self._by_entry.get(entry, ()) if (each.metric.name, each.size) not in asked]
        return (*own, *self._asked)


def verdict(checks: Sequence[Check], conditions: Conditions, hints: tuple[Hint, ...] = ()) -> Verdict:
    """One verdict from all checks: the gravest reason first in its words, every violation after it."""
    failed = sorted(
        (check for check in checks if check.ok is False),
        key=lambda check: GRAVITY[check.reason or Reason.THRESHOLD_VIOLATION],
    )
    unsure = [check for check in checks if check.ok is None]
    deciding = _deciding(checks)
    outcome: Outcome = "failed" if failed else "inconclusive" if unsure else "passed"
    spoken = failed or unsure
    message = "; ".join(check.text for check in spoken) if spoken else _passed(checks, deciding, conditions)
    return Verdict(
        outcome=outcome,
        reason=failed[0].reason if failed else None,
        message=message,
        checks=tuple(checks),
        grey=deciding is not None and deciding.margin is not None and abs(deciding.margin) <= GREY,
        value=deciding.value if deciding else None,
        expected=deciding.expected if deciding and isinstance(deciding.expected, float) else None,
        unit=deciding.unit if deciding else "",
        hints=hints,
    )


def _deciding(checks: Sequence[Check]) -> Check | None:
    """The check with the smallest margin, of bandwidth where there is one; else the one that shows the bandwidth."""
    judged = [check for check in checks if check.margin is not None]
    bandwidth = [check for check in checks if check.metric in METRICS and METRICS[check.metric].bandwidth]
    closest = [check for check in judged if check in bandwidth] or judged
    if closest:
        return min(closest, key=lambda check: check.margin or 0.0)
    return bandwidth[0] if bandwidth else None


def _passed(checks: Sequence[Check], deciding: Check | None, conditions: Conditions) -> str:
    if deciding is not None:
        return deciding.text
    if conditions.backend == "gloo":
        return "correct and complete over gloo: certifies no GPU"
    return "; ".join(check.text for check in checks)
