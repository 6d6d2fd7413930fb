"""What a session has proven so far, shared by its isolations.

A pass counts for the layers that the run could show and only for cases of the same sensitivity: a node that moved 1 MiB
well is not known to move 16 GiB well. Suspects of an earlier case are tested first in the next one; they are never
taken over as named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from isolate.model import Case, Layer, Topology, Variant
from isolate.topology import Map


class Evidence:
    """Known-good nodes by sensitivity and layer, and the suspects of earlier cases; plain data in and out."""

    def __init__(self) -> None:
        self._good: dict[tuple[str, str], set[str]] = {}
        self._suspects: dict[str, str] = {}

    def passed(self, case: Case, topology: Topology, nodes: Iterable[str], variant: Variant | None = None) -> None:
        """A run of `case` on `nodes` passed: each of them is good in the layers that it could show."""
        group = tuple(nodes)
        for node, layers in Map(group, topology).shows(group, variant or Variant()).items():
            self.clear(case, node, layers & case.layers)

    def clear(self, case: Case, node: str, layers: Iterable[Layer]) -> None:
        """`node` is good in `layers` as far as `case` can show."""
        for layer in layers:
            self._good.setdefault((case.sensitivity, layer), set()).add(node)

    def suspect(self, node: str, why: str) -> None:
        """`node` was named in an earlier case; it is nobody's partner from now on."""
        self._suspects[node] = why
        for good in self._good.values():
            good.discard(node)

    def layers(self, case: Case, node: str) -> frozenset[Layer]:
        """The layers in which the session has proven `node` good for such a case."""
        every: tuple[Layer, ...] = ("node", "scale-up", "fabric")
        return frozenset(
            layer
            for layer in every
            if node in self._good.get((case.sensitivity, layer), ()) and node not in self._suspects
        )

    def nodes(self, case: Case) -> frozenset[str]:
        """All nodes that the session has proven good in some layer for such a case."""
        return frozenset().union(
            *(nodes for (sensitivity, _), nodes in self._good.items() if sensitivity == case.sensitivity)
        ) - frozenset(self._suspects)

    @property
    def suspects(self) -> Mapping[str, str]:
        """Nodes named so far and why."""
        return dict(self._suspects)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for another process."""
        return {
            "good": [[*key, sorted(nodes)] for key, nodes in sorted(self._good.items())],
            "suspects": dict(sorted(self._suspects.items())),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """The inverse of `to_dict`."""
        evidence = cls()
        for sensitivity, layer, nodes in data["good"]:
            evidence._good[sensitivity, layer] = set(nodes)
        evidence._suspects.update(data["suspects"])
        return evidence

    def merge(self, other: Evidence) -> None:
        """Take over what another process has proven."""
        for key, nodes in other._good.items():
            self._good.setdefault(key, set()).update(nodes)
        self._suspects.update(other._suspects)
        for good in self._good.values():
            good.difference_update(self._suspects)
