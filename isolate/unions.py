"""Step 4: all parts pass and the union fails: find what lies between them.

The parts are halved until two sets remain that pass apart and fail together; their crossings (quadrants) are run two at
a time. One failing quadrant holds the link; all four failing is the boundary of the two sets; none failing is a matter
of size or span. In a ring only neighbours talk, so the quadrants that hold the original edges come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isolate.boundary import name_boundary, name_link
from isolate.pin import pin_all
from isolate.requests import Answer, Ask, Join, Steps, Wish
from isolate.search import OUTSIDE, SCALE_UP, Lens, Search

Nodes = tuple[str, ...]
Quadrant = tuple[Nodes, Nodes]
_INFER = 8
"""Sets of more nodes than this are crossed with an inference."""
Again = Callable[[Sequence[Nodes]], Steps[bool]]


def union(s: Search, parts: Sequence[Nodes], lens: Lens, again: Again, *, checked: bool = False) -> Steps[bool]:
    """Explain a union that fails while its parts pass.

    `again` runs parts once more and explains those that fail after all; `checked`: that was done.
    """
    if len(parts) == 1:
        return (yield from again(parts))
    if len(parts) == 2:
        return (yield from cross(s, parts[0], parts[1], lens))
    middle = len(s.map.cut([nodes[0] for nodes in parts], 2)[0])
    halves = (parts[:middle], parts[middle:])
    told: list[bool] = yield Join([fails_together(half, lens) for half in halves])
    if not any(told):
        return (yield from cross(s, flat(halves[0]), flat(halves[1]), lens))
    found = False
    for half, fails in zip(halves, told, strict=True):
        if fails and not s.size_sets:
            if not checked and (yield from again(half)):
                found = True
                continue
            found = (yield from union(s, half, lens, again, checked=True)) or found
    return found


def flat(parts: Sequence[Nodes]) -> Nodes:
    """All nodes of the parts, in their order."""
    return tuple(node for nodes in parts for node in nodes)


def fails_together(parts: Sequence[Nodes], lens: Lens) -> Steps[bool]:
    """Whether parts fail together; one part has just passed by itself."""
    if len(parts) == 1:
        return False
    answer: Answer = yield Ask(flat(parts), "cross", Wish("none", lens.layers, beyond=True), lens.variant)
    return answer.failed


def crosses(left: Nodes, right: Nodes, lens: Lens) -> Steps[bool]:
    """Whether two sets fail together; an empty one cannot."""
    if not left or not right:
        return False
    return (yield from fails_together((left, right), lens))


def cross(s: Search, left: Nodes, right: Nodes, lens: Lens, *, sure: bool = True) -> Steps[bool]:
    """Two sets pass apart and fail together: run the quadrants.

    Of a large set only one quadrant of the second pair is run: where it passes, the other one is taken to fail
    (`sure=False` for that one). That saves a quarter of the node-runs, and an inference that leads nowhere is checked.
    """
    if len(left) == 1 and len(right) == 1:
        return (yield from pair(s, left[0], right[0], lens))
    (l1, l2), (r1, r2) = two(s, left), two(s, right)
    across, along = [(l2, r1), (l1, r2)], [(l1, r1), (l2, r2)]
    first, second = (across, along) if s.case.traffic == "ring" else (along, across)
    failing = yield from which(first, lens)
    if len(failing) == 2:
        failing += yield from which(second, lens)
        if len(failing) == sum(1 for each in (*first, *second) if all(each)):
            return (yield from name_boundary(s, left, right, lens))
        failing = failing[:2]
    inferred = False
    if not failing and all(second[1]) and len(left) + len(right) > _INFER:
        failing = yield from which(second[:1], lens)
        inferred = not failing
        failing = failing or second[1:]
    elif not failing:
        failing = yield from which(second, lens)
    if failing:
        named: list[bool] = yield Join([cross(s, *each, lens, sure=not inferred) for each in failing])
        if any(named) or not inferred:
            return any(named)
    if not sure and not (yield from crosses(left, right, lens)):
        return False
    return no_quadrant(s, left, right)


def which(quadrants: Sequence[Quadrant], lens: Lens) -> Steps[list[Quadrant]]:
    """The quadrants that fail."""
    told: list[bool] = yield Join([crosses(*each, lens) for each in quadrants])
    return [each for each, fails in zip(quadrants, told, strict=True) if fails]


def two(s: Search, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Two halves; of one node, the node and nothing."""
    halves = s.map.cut(nodes, 2)
    return halves[0], halves[1] if len(halves) > 1 else ()


def no_quadrant(s: Search, left: Nodes, right: Nodes) -> bool:
    """No crossing fails, only the whole does: a matter of size or span, to be bracketed."""
    group = (*left, *right)
    s.size_sets.append(group)
    s.say(f"{s.names(group)} fail together, no half and no crossing of halves does: a matter of size or span.")
    return True


def pair(s: Search, one: str, other: str, lens: Lens) -> Steps[bool]:
    """Two nodes fail together: with other partners both must pass, or it is a node after all."""
    if lens is OUTSIDE and s.map.nvlink[one] == s.map.nvlink[other]:
        lens = SCALE_UP  # they talk over NVLink here, so that is what other partners must show
    elsewhere = frozenset((one, other))
    told: list[Answer] = yield Join([_elsewhere(node, elsewhere, lens) for node in (one, other)])
    if any(answer.failed for answer in told):
        verdict = yield from pin_all(s, (one, other), lens)
        if verdict != "cleared":
            return verdict == "explained"
    return (yield from name_link(s, one, other, lens, siblings=True))


def _elsewhere(node: str, avoid: frozenset[str], lens: Lens) -> Steps[Answer]:
    answer: Answer = yield Ask((node,), "confirm", Wish(lens.first, lens.layers, avoid), lens.variant)
    return answer
