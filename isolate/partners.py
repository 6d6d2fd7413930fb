"""Chooses partners: known-good nodes, free now, in the place that an ask wishes for.

Partners come in topology order, and far ones begin after the node's own leaf, so that pins that run together take
different ones and the same results always give the same choice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isolate.ledger import Ledger
from isolate.requests import Kind, Wish
from isolate.topology import Map


class Partners:
    """Everybody who could be a partner."""

    def __init__(self, mapped: Map, ledger: Ledger) -> None:
        self._map = mapped
        self._ledger = ledger

    def choose(self, core: tuple[str, ...], wish: Wish, need: int, busy: Collection[str]) -> tuple[str, ...] | None:
        """Partners free now, or None: wait (or give up, when nothing else moves)."""
        kinds = [wish.kind]
        if wish.kind == "none":
            kinds = ["any"]
        if kinds[0] in ("near", "far", "any"):
            kinds = [*kinds, "any"]
        for kind in kinds:
            free: list[str] = []
            exists = 0
            for node in self._candidates(core, kind, wish):
                exists += 1
                if node not in busy:
                    free.append(node)
                    if len(free) == need:
                        return tuple(free)
            if exists >= need:
                return None
        return None

    def _candidates(self, core: tuple[str, ...], kind: Kind, wish: Wish) -> Iterable[str]:
        mine = set(core)
        rank = self._map.rank
        low, high = min(rank[node] for node in core), max(rank[node] for node in core)
        for node in self._by_kind(core, kind, wish):
            if node in mine or node in wish.avoid or (wish.beyond and low < rank[node] < high):
                continue
            if kind == "mate":
                if node not in self._ledger.lost and node not in self._ledger.barred:
                    yield node
            elif self._ledger.good(node, wish.layers):
                yield node

    def _by_kind(self, core: tuple[str, ...], kind: Kind, wish: Wish) -> Iterable[str]:
        first = core[0]
        leaf = self._map.leaf[first]
        if kind == "mate":
            yield from self._map.leaves[leaf]
        elif kind == "domain":
            yield from self._ledger.good_in_domain(self._map.nvlink[first])
        elif kind == "near":
            yield from self._ledger.good_in_leaf(leaf)
        elif kind == "outside":
            yield from self._outside(first)
        else:
            if kind == "any":
                yield from self._ledger.good_in_leaf(leaf)
            late: list[str] = []
            for other in self._far_leaves(leaf):
                if other in wish.avoid_leaves:
                    late.append(other)
                else:
                    yield from self._ledger.good_in_leaf(other)
            if kind == "any":
                for other in late:
                    yield from self._ledger.good_in_leaf(other)

    def _far_leaves(self, leaf: str) -> list[str]:
        """Other leaves, beginning after the node's own, so that pins of different leaves take different partners."""
        leaves = [each for each in self._ledger.good_leaves() if each != leaf]
        start = hash_free(leaf) % len(leaves) if leaves else 0
        return leaves[start:] + leaves[:start]

    def _outside(self, node: str) -> Iterable[str]:
        seen = {self._map.nvlink[node]}
        for leaf in (*self._far_leaves(self._map.leaf[node]), self._map.leaf[node]):
            for other in self._ledger.good_in_leaf(leaf):
                if self._map.nvlink[other] not in seen:
                    yield other


def hash_free(text: str) -> int:
    """A small number from a text that is the same in every process."""
    number = 0
    for character in text:
        number = (number * 31 + ord(character)) % 1_000_003
    return number
