"""Peers: of runs of the same case, shape and hop tier in one session, which are worse than all the others.

An outlier needs three things (judgement.md): a modified z of 5 or more on the worse side, by median and MAD (Iglewicz
and Hoaglin, "How to Detect and Handle Outliers", 1993; the factor 1.4826 makes the MAD a standard deviation for normal
data), a difference that matters for the metric, and the same again when rerun. At z = 3, 4,096 nodes x 10 metrics
would give 55 false alarms; at 5 a healthy fleet gives none. A few peers prove nothing, and where many are "outliers"
the fleet has two populations: that is said, and nobody is called an outlier.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable
from dataclasses import dataclass, field

from criteria.metrics import METRICS, finite, metric
from measure import Measurement

Z = 5.0
FEWEST = 6
"""Peers of one group below which nothing is said."""
MAD_FLOOR = 0.002
"""The MAD counts as at least this share of the median: quantised or equal values would make any difference infinite."""
MOST = 0.25
"""Above this share of a group, the group has two populations and no outliers."""
_NORMAL = 1.4826


@dataclass(frozen=True, slots=True)
class Outlier:
    """A peer that is worse than the others; `confirmed` when at least two of its runs were, and none was not."""

    name: str
    metric: str
    value: float
    median: float
    z: float
    effect: float
    """How much worse, relative to the median."""
    confirmed: bool
    peers: int

    @property
    def text(self) -> str:
        """One sentence for the report."""
        unit = METRICS[self.metric].unit
        again = "again when rerun" if self.confirmed else "not rerun yet"
        return (
            f"{self.name}: {self.metric} {self.value:.4g} {unit} is {self.effect:.1%} worse than the median "
            f"{self.median:.4g} of {self.peers} peers (z {self.z:.1f}, by median and MAD; {again})"
        )


@dataclass(slots=True)
class Peers:
    """Values of the session so far, by group (`key`: case, shape, hop tier), metric and name."""

    _values: dict[tuple[Hashable, str], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, key: Hashable, name: str, metric_name: str, value: float) -> None:
        """One more value of `name` (a node or node set). Raises `CriteriaError` for an unknown metric."""
        metric(metric_name)
        self._values.setdefault((key, metric_name), {}).setdefault(name, []).append(value)

    def outliers(self, key: Hashable) -> tuple[Outlier, ...]:
        """Outliers of the group over all its metrics, the worst first; none where too few or too many stand out."""
        found = [
            outlier
            for (group, name), values in self._values.items()
            if group == key and not self._split(values, name)
            for outlier in _outliers(values, name)
        ]
        return tuple(sorted(found, key=lambda outlier: -outlier.z))

    def systemic(self, key: Hashable) -> tuple[str, ...]:
        """Metrics of the group in which so many stand out that it is two populations: look for what differs."""
        return tuple(
            name for (group, name), values in self._values.items() if group == key and self._split(values, name)
        )

    @staticmethod
    def _split(values: dict[str, list[float]], name: str) -> bool:
        return len(values) >= FEWEST and len(_outliers(values, name)) > MOST * len(values)


def _outliers(values: dict[str, list[float]], name: str) -> list[Outlier]:
    if len(values) < FEWEST:
        return []
    known = metric(name)
    sign = 1.0 if known.better == "higher" else -1.0
    typical = {each: statistics.median(repeats) for each, repeats in values.items()}
    median = statistics.median(typical.values())
    if median <= 0:
        return []
    mad = statistics.median(abs(value - median) for value in typical.values())
    sigma = _NORMAL * max(mad, MAD_FLOOR * median)
    found = []
    for each, value in typical.items():
        worse = [sign * (median - repeat) for repeat in values[each]]
        z, effect = sign * (median - value) / sigma, sign * (median - value) / median
        if z >= Z and effect >= known.relevant:
            every = all(gap / sigma >= Z and gap / median >= known.relevant for gap in worse)
            found.append(Outlier(each, name, value, median, z, effect, every and len(worse) > 1, len(values)))
    return found


def among_ranks(measurement: Measurement) -> tuple[Outlier, ...]:
    """GPUs of a single-node stage that are worse than the others of the same run, by what each rank measured alone.

    Only for ranks that do not wait for each other: in a collective all of them measure the slowest one.
    """
    found = Peers()
    for entry in measurement.per_rank:
        place = f"{entry.get('node', '')} GPU {entry.get('local_rank', entry.get('rank'))}".strip()
        for name in METRICS.keys() & entry.keys():
            value = finite(entry[name])
            if value is not None:
                found.add("run", place, name, value)
    return found.outliers("run")
