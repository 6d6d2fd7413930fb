"""What cases of one node each say when they are seen together.

A node that fails a single-node case is a suspect. Where nearly all nodes fail it alike, that is not a fault of each of
them but of what they share (image, driver settings, a wrong expectation), and accusing everybody would tell nobody
anything: then no node is named but those far below what the others reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from reports.record import CaseRecord, NodeVerdict

LEAST_NODES = 4
"""Fewer say nothing about what is common."""
NEARLY_ALL = 0.8
"""Share of nodes that must fail."""
ALIKE = 0.3
"""Relative distance from the median within which values are alike."""


@dataclass
class Alone:
    """The single-node cases of one entry at one scale."""

    seen: set[str] = field(default_factory=set)
    failed: dict[str, tuple[float | None, str]] = field(default_factory=dict)
    """Node → its value and why it failed."""

    def add(self, node: str, case: CaseRecord, reason: str) -> None:
        """Take in a case; an empty `reason` means that it accuses nobody."""
        self.seen.add(node)
        if reason:
            self.failed[node] = (case.value if case.reason == "ThresholdViolation" else None, reason)

    def verdicts(self) -> Iterator[tuple[str, NodeVerdict, str]]:
        """(node, verdict, reason) of each node that failed."""
        common = self._common()
        for node, (value, reason) in self.failed.items():
            if common and value is not None and value >= (1 - ALIKE) * common:
                words = f"{reason} (like {len(self.failed)} of {len(self.seen)} nodes: what they share, not this node)"
                yield node, "inconclusive", words
            else:
                yield node, "suspect", reason

    def _common(self) -> float:
        """The value that nearly all nodes fail with; 0 where there is none."""
        if len(self.seen) < LEAST_NODES or len(self.failed) < NEARLY_ALL * len(self.seen):
            return 0.0
        values = [value for value, _ in self.failed.values() if value is not None]
        middle = median(values) if values else 0.0
        near = sum(abs(value - middle) <= ALIKE * middle for value in values)
        return middle if near >= NEARLY_ALL * len(self.failed) else 0.0
