"""Explicit bounds: `min`, `max` or a CEL expression on a metric, for the case or for one message size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from catalog import Threshold, format_size
from criteria.expressions import Expression
from criteria.metrics import METRICS, Metric, metric
from criteria.model import Check, Conditions, CriteriaError, Reason
from measure import Measurement


@dataclass(frozen=True, slots=True)
class Bound:
    """A threshold made ready: its metric known, its expression tried."""

    metric: Metric
    size: int | None
    min: float | None
    max: float | None
    expression: Expression | None

    @property
    def words(self) -> str:
        """What was asked, as its writer would say it."""
        if self.expression is not None:
            return self.expression.source
        parts = ((">=", self.min), ("<=", self.max))
        return " and ".join(f"{sign} {bound:g}" for sign, bound in parts if bound is not None)

    def check(self, measurement: Measurement, conditions: Conditions) -> Check:
        """Whether the measurement holds this bound; a metric that is missing or no number fails as `NoMeasurement`."""
        value = self.metric.read(measurement, self.size)
        at = f" at {format_size(self.size)}" if self.size is not None else ""
        if value is None:
            return self._missing(measurement, conditions, at)
        ok, floor, margin = self._held(value)
        sign = "holds" if ok else "violates"
        text = f"{self.metric.name}{at} {value:.4g} {self.metric.unit} {sign} the threshold {self.words}"
        return Check(
            self.metric.name,
            ok=ok,
            text=" ".join(text.split()),
            value=value,
            unit=self.metric.unit,
            expected=floor if floor is not None else self.words,
            floor=floor,
            tolerance=None if floor is None else 1.0,
            source="threshold given",
            margin=margin,
            size=self.size,
            reason=Reason.THRESHOLD_VIOLATION,
        )

    def _held(self, value: float) -> tuple[bool, float | None, float | None]:
        """(ok, the bound that decides, margin to it); an expression has no margin that could be said."""
        if self.expression is not None and not self.expression.holds(value):
            return False, None, None
        margins = [(_margin(value, bound, lower=lower), bound) for bound, lower in self._limits()]
        if not margins:
            return True, None, None
        margin, bound = min(margins)
        return all(bound <= value if lower else value <= bound for bound, lower in self._limits()), bound, margin

    def _limits(self) -> Iterator[tuple[float, bool]]:
        if self.min is not None:
            yield self.min, True
        if self.max is not None:
            yield self.max, False

    def _missing(self, measurement: Measurement, conditions: Conditions, at: str) -> Check:
        has = [name for name, each in METRICS.items() if each.read(measurement, None) is not None]
        known = f"; {conditions.entry} measured {', '.join(has)}" if has else ""
        return Check(
            self.metric.name,
            ok=False,
            text=f"{self.metric.name}{at} was not measured, so the threshold {self.words} cannot hold{known}",
            unit=self.metric.unit,
            expected=self.words,
            source="threshold given",
            size=self.size,
            reason=Reason.NO_MEASUREMENT,
        )


def _margin(value: float, bound: float, *, lower: bool) -> float:
    """Relative distance to the bound, value / floor - 1 or 1 - value / limit; by sign alone where the bound is 0."""
    distance = value - bound if lower else bound - value
    return distance / abs(bound) if bound else (0.0 if distance == 0 else distance / abs(distance))


def bounds(thresholds: Iterable[Threshold], where: str) -> tuple[Bound, ...]:
    """Thresholds made ready. Raises `CriteriaError` listing every metric, unit and expression that cannot be used."""
    problems: list[str] = []
    ready: list[Bound] = []
    for threshold in thresholds:
        try:
            ready.append(_ready(threshold, f"{where}.{threshold.metric}"))
        except CriteriaError as error:
            problems.append(str(error))
    if problems:
        raise CriteriaError("\n".join(problems))
    return tuple(ready)


def _ready(threshold: Threshold, where: str) -> Bound:
    try:
        known = metric(threshold.metric)
    except CriteriaError as error:
        raise CriteriaError(f"{where}: {error}") from None
    if threshold.unit and threshold.unit != known.unit:
        raise CriteriaError(f"{where}: expected unit {known.unit or 'none'}, found {threshold.unit!r}")
    if threshold.size is not None and not known.by_size:
        sized = ", ".join(name for name, each in METRICS.items() if each.by_size)
        raise CriteriaError(f"{where}: expected no size: only {sized} are known by message size")
    expression = Expression(threshold.expr, where) if threshold.expr is not None else None
    return Bound(known, threshold.size, threshold.min, threshold.max, expression)
