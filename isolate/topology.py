"""Where nodes stand, as the planner needs it: order, leaves, NVLink domains, aligned cuts and what a group can show.

Ranks follow the topology order, so the order decides which edges a ring uses and which cuts are natural. A cut prefers
the highest level that the set spans: a part is then a rack or a block rather than pieces of two, its traffic crosses
few boundaries, and a fault of a boundary shows in the union of two parts instead of hiding in one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from isolate.model import Layer, Place, Topology, Variant

_DIGITS = re.compile(r"(\d+)")
_UNKNOWN = Place()
NODE: frozenset[Layer] = frozenset({"node"})


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which `node-9` comes before `node-10`."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part), part) if part.isdigit() else (0, 0, part) for part in parts if part)


@dataclass(frozen=True, slots=True)
class Around:
    """The smallest domains that hold one side of a boundary and not the other."""

    name: str
    level: str


class Map:
    """The topology of the nodes that one isolation may use, with everything precomputed that is asked often."""

    def __init__(self, nodes: Iterable[str], topology: Topology) -> None:
        self._places = {node: topology.places.get(node, _UNKNOWN) for node in dict.fromkeys(nodes)}
        self._levels = topology.levels
        ordered = sorted(
            self._places,
            key=lambda node: (
                tuple(natural(name) for name in self._places[node].path),
                natural(self._places[node].nvlink),
                natural(node),
            ),
        )
        self.rank = {node: position for position, node in enumerate(ordered)}
        self.leaf = {node: "/".join(place.path) for node, place in self._places.items()}
        """Full path of the innermost domain: the leaf a node hangs on; empty where unknown."""
        self.nvlink = {node: place.nvlink or f"\0{node}" for node, place in self._places.items()}
        """NVLink domain; a node of its own where none spans nodes."""
        self.leaves: dict[str, list[str]] = {}
        self.domains: dict[str, list[str]] = {}
        for node in ordered:
            self.leaves.setdefault(self.leaf[node], []).append(node)
            self.domains.setdefault(self.nvlink[node], []).append(node)
        self.known = any(place.path for place in self._places.values())

    def order(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Topology order, each node once."""
        return tuple(sorted(set(nodes), key=self.rank.__getitem__))

    def path(self, node: str) -> tuple[str, ...]:
        """Names of the node's domains, outermost first."""
        return self._places[node].path

    def spans_domains(self, nodes: Iterable[str]) -> bool:
        """Whether the nodes stand in more than one NVLink domain."""
        return len({self.nvlink[node] for node in nodes}) > 1

    def shared_domains(self, nodes: Iterable[str]) -> frozenset[str]:
        """NVLink domains of which the nodes hold two or more members: what a probe with MNNVL occupies."""
        seen: set[str] = set()
        twice: set[str] = set()
        for node in nodes:
            domain = self.nvlink[node]
            (twice if domain in seen else seen).add(domain)
        return frozenset(twice)

    def shows(self, nodes: Collection[str], variant: Variant) -> dict[str, frozenset[Layer]]:
        """For each node, the layers of which a run on `nodes` would show a fault of it."""
        if variant.mnnvl is False:
            every: frozenset[Layer] = frozenset({"node", "fabric"}) if len(nodes) > 1 else NODE
            return dict.fromkeys(nodes, every)
        spans = self.spans_domains(nodes)
        shared = self.shared_domains(nodes)
        fabric: frozenset[Layer] = frozenset({"fabric"}) if spans else frozenset()
        inside: frozenset[Layer] = frozenset({"scale-up"})
        layers = {False: NODE | fabric, True: NODE | fabric | inside}
        return {node: layers[self.nvlink[node] in shared] for node in nodes}

    def depth(self, left: str, right: str) -> int:
        """Number of levels on which two nodes share their domain: 0 = they part at the outermost."""
        a, b = (*self._places[left].path, self.nvlink[left]), (*self._places[right].path, self.nvlink[right])
        common = 0
        for one, other in zip(a, b, strict=False):
            if one != other:
                break
            common += 1
        return common

    def cut(self, nodes: Sequence[str], parts: int, least: int = 1) -> list[tuple[str, ...]]:
        """Split nodes in topology order into at most `parts` runs of at least `least`, at the highest levels."""
        parts = min(parts, len(nodes) // max(1, least))
        if parts <= 1:
            return [tuple(nodes)]
        before = parts // 2
        place = self._boundary(nodes, before, parts, least)
        return self.cut(nodes[:place], before, least) + self.cut(nodes[place:], parts - before, least)

    def _boundary(self, nodes: Sequence[str], before: int, parts: int, least: int) -> int:
        count = len(nodes)
        ideal = count * before // parts
        low, high = max(before * least, 1), min(count - (parts - before) * least, count - 1)
        reach = max(1, count // 5)
        choices = range(max(low, ideal - reach), min(high, ideal + reach) + 1)
        if not choices:
            return min(max(ideal, low), high)
        return min(choices, key=lambda at: (self.depth(nodes[at - 1], nodes[at]), abs(at - ideal)))

    def around(self, inside: Collection[str], outside: Collection[str]) -> Around | None:
        """The smallest named domain that holds all of `inside` and none of `outside`."""
        paths = [self._places[node].path for node in inside]
        shared = 0
        while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
            shared += 1
        if not shared:
            return None
        prefix = paths[0][:shared]
        if any(self._places[node].path[:shared] == prefix for node in outside):
            return None
        return Around(prefix[-1], self.level(shared - 1))

    def level(self, depth: int) -> str:
        """The word for a level: its given name, else the domain names' own prefix, else `domain`."""
        if depth < len(self._levels):
            return self._levels[depth]
        names = {place.path[depth] for place in self._places.values() if len(place.path) > depth}
        words = {re.sub(r"[-_.]?\d+$", "", name) for name in names}
        return words.pop() if len(words) == 1 and words != {""} else "domain"

    def members(self, name: str) -> tuple[str, ...]:
        """All nodes that stand in a domain of that bare name."""
        return tuple(node for node in self.rank if name in self._places[node].path)
