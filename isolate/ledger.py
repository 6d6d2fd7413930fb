"""What one isolation has seen: every probe, who passed in which layer, who failed, who is gone.

The ledger draws no conclusion beyond one: a node that was part of a passing probe is good in the layers that the probe
could show. All reasoning about failures is the steps' business; they read the ledger and bar nodes from being
partners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isolate.evidence import Evidence
from isolate.model import Case, Layer, Probe, ProbeRecord, Result, Variant
from isolate.topology import Map


class Ledger:
    """Memory of one isolation."""

    def __init__(self, mapped: Map, case: Case, evidence: Evidence) -> None:
        self._map = mapped
        self._case = case
        self._evidence = evidence
        self.records: list[ProbeRecord] = []
        self.cleared: dict[str, set[Layer]] = {}
        self.passes: dict[str, int] = {}
        self.fails: dict[str, int] = {}
        self.met: dict[str, list[int]] = {}
        """Node → ids of the probes that asked about it."""
        self.barred: set[str] = set()
        """Nodes that are nobody's partner: suspects and members of unexplained sets."""
        self.lost: dict[str, None] = {}
        self.passed_pairs: set[tuple[tuple[str, ...], Variant]] = set()
        """Pairs of nodes that passed together, in which variant: no link between them is at fault for good."""
        self.largest_passing = 0
        self.switch_broken = False
        self._good_by_leaf: dict[str, dict[str, None]] = {}
        self._good_by_domain: dict[str, dict[str, None]] = {}
        for node in mapped.order(evidence.nodes(case) & mapped.rank.keys()):
            self._clear(node, evidence.layers(case, node))

    def record(self, probe: Probe, result: Result, *, passed: bool, alone: bool, told: str) -> None:
        """Keep a result; `passed` as the search judges it (which may be relative to a systemic level)."""
        self.records.append(ProbeRecord(probe, result, alone, told))
        for node in probe.about:
            self.met.setdefault(node, []).append(probe.id)
        for node in result.lost:
            self.lose(node)
        variant = probe.variant
        if variant.mnnvl is False and not result.proven:
            self.switch_broken = True
            variant = type(variant)(rail=variant.rail, traffic=variant.traffic)
        if passed and variant.rail is None:
            if len(probe.nodes) == 2:
                self.passed_pairs.add((probe.nodes, probe.variant))
            self.largest_passing = max(self.largest_passing, len(probe.nodes))
            for node, layers in self._map.shows(probe.nodes, variant).items():
                self.passes[node] = self.passes.get(node, 0) + 1
                self._clear(node, layers)
                if result.outcome == "passed" and node not in self.barred:
                    self._evidence.clear(self._case, node, layers & self._case.layers)
        elif result.outcome == "failed":
            for node in probe.nodes:
                self.fails[node] = self.fails.get(node, 0) + 1

    def _clear(self, node: str, layers: Collection[Layer]) -> None:
        self.cleared.setdefault(node, set()).update(layers)
        self._good_by_leaf.setdefault(self._map.leaf[node], {})[node] = None
        self._good_by_domain.setdefault(self._map.nvlink[node], {})[node] = None

    def clear_again(self, probe: Probe) -> None:
        """A probe counts as passed after all, against a common level; that proves nothing to other cases."""
        for node, layers in self._map.shows(probe.nodes, probe.variant).items():
            self._clear(node, layers)

    def lose(self, node: str) -> None:
        """The node went away."""
        self.lost[node] = None

    def good(self, node: str, layers: Collection[Layer]) -> bool:
        """Whether the node may be a partner for a question about `layers`."""
        return (
            node not in self.barred
            and node not in self.lost
            and all(layer in self.cleared.get(node, ()) for layer in layers)
        )

    def good_leaves(self) -> Iterable[str]:
        """Leaves that have, or had, good nodes."""
        return self._good_by_leaf.keys()

    def good_in_leaf(self, leaf: str) -> Iterable[str]:
        """Nodes of a leaf that passed something."""
        return self._good_by_leaf.get(leaf, {})

    def good_in_domain(self, domain: str) -> Iterable[str]:
        """Nodes of an NVLink domain that passed something."""
        return self._good_by_domain.get(domain, {})
