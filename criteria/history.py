"""History: the same node set was better before.

A regression is a value worse than the node set's earlier results by more than their spread *and* by more than what
matters for the metric. With one earlier result there is no spread to know, so only the second counts; with more, the
limit is the larger of the two. The earlier results come from report.json files (`--baseline`).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog import format_size
from criteria.metrics import METRICS, finite, metric
from criteria.model import Check, CriteriaError, Reason

BEYOND = 4.0
"""Standard deviations (1.4826 x MAD) of the earlier results that count as their spread."""

Key = tuple[str, frozenset[str], str, int | None]
"""Entry, nodes, metric, size in bytes (None = the metric's usual value)."""


@dataclass(slots=True)
class Baseline:
    """Earlier results by entry, node set, metric and size."""

    _values: dict[Key, list[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, paths: Iterable[str | Path]) -> Baseline:
        """From report.json files. Raises `CriteriaError` for one that is missing or no report of ours."""
        baseline = cls()
        for path in paths:
            for key, value in _results(_document(Path(path)), str(path)):
                baseline.add(*key, value=value)
        return baseline

    def add(self, entry: str, nodes: Iterable[str], name: str, size: int | None, *, value: float) -> None:
        """One earlier result."""
        self._values.setdefault((entry, frozenset(nodes), name, size), []).append(value)

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def compare(self, entry: str, nodes: Iterable[str], name: str, value: float, size: int | None) -> Check | None:
        """Whether `value` is no regression; None where this node set has no earlier result of the metric."""
        earlier = self._values.get((entry, frozenset(nodes), name, size))
        if not earlier:
            return None
        known = metric(name)
        usual = statistics.median(earlier)
        if usual <= 0:
            return None
        spread = BEYOND * 1.4826 * statistics.median(abs(each - usual) for each in earlier) / usual
        limit = max(known.relevant, spread)
        worse = (usual - value) / usual if known.better == "higher" else (value - usual) / usual
        floor = usual * (1 - limit) if known.better == "higher" else usual * (1 + limit)
        at = f" at {format_size(size)}" if size is not None else ""
        ok = worse <= limit
        how = "is within" if ok else "is worse than"
        text = (
            f"{name}{at} {value:.4g} {known.unit} {how} what this node set had: {usual:.4g}, {worse:+.1%} worse, limit "
            f"{limit:.1%} (median of {len(earlier)} earlier results)"
        )
        return Check(
            name,
            ok=ok,
            text=text,
            value=value,
            unit=known.unit,
            expected=usual,
            floor=floor,
            tolerance=1 - limit,
            source="baseline",
            margin=limit - worse,
            size=size,
            reason=Reason.THRESHOLD_VIOLATION,
        )


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CriteriaError(f"{path}: expected a report.json of an earlier session, found no file") from None
    except (OSError, ValueError) as error:
        raise CriteriaError(f"{path}: expected a report.json of an earlier session: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("cases"), list):
        raise CriteriaError(f"{path}: expected a report.json of an earlier session, found no cases in it")
    return document


def _results(document: Mapping[str, Any], where: str) -> Iterator[tuple[Key, float]]:
    """Values of cases that passed: a failing machine is nothing to be held against."""
    for case in document["cases"]:
        if not isinstance(case, dict):
            raise CriteriaError(f"{where}: expected a list of cases, found {type(case).__name__} in it")
        if case.get("verdict") != "passed":
            continue
        for each in case.get("criteria") or ():
            value = finite(each.get("value"))
            # The same metric may stand there twice, held against a threshold and against an earlier baseline.
            if value is not None and each.get("metric") in METRICS and each.get("source") != "baseline":
                size = each.get("size")
                yield (
                    (str(case.get("entry")), frozenset(map(str, case.get("nodes") or ())), each["metric"], size),
                    value,
                )
