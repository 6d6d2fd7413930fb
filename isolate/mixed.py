"""Step 7: when nearly everything fails, or nobody is known to be good, run mixed pairings across domains.

With every second node bad each neighbouring pair fails, yet pairs of two good nodes exist: distant pairings find them,
and everybody is then pinned with partners known to be good. If the mixed pairings fail as well, and alike, no node is
to blame.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from statistics import median

from isolate.model import Variant
from isolate.requests import Answer, Ask, Gate, Join, Steps, Wish
from isolate.search import Lens, Search, alike

Nodes = tuple[str, ...]
_SAMPLE = 8
"""Groups of a pairing: with a third of all nodes bad, 4 x 8 pairs miss all good ones once in 10^7 times."""


def mix(s: Search, stuck: Nodes = ()) -> Steps[bool]:
    """Look for a group that passes; True when one was found. Concludes `systemic` where all fail alike."""
    if s.gate is not None or s.mixed:
        return False
    s.gate = Gate()
    found = yield from _pairings(s, stuck)
    s.mixed = True
    gate, s.gate = s.gate, None
    s.scheduler.open(gate)
    return found


def pair_up(s: Search, nodes: Nodes, lens: Lens) -> Steps[bool]:
    """Pair the members of one NVLink domain anew until some pass together; nothing is concluded if none do."""
    for groups in rounds(nodes, s.least, s.many_lanes, s.limits.seed):
        answers: list[Answer] = yield Join([_ask(each, lens.variant) for each in groups])
        if any(answer.passed for answer in answers):
            return True
    return False


def _pairings(s: Search, stuck: Nodes) -> Steps[bool]:
    everybody = tuple(node for node in s.group if node not in s.ledger.lost and node not in s.ledger.barred)
    fresh = tuple(node for node in everybody if node not in set(stuck))
    # Those outside the set that is stuck are more likely good; nothing is concluded before nearly everybody was paired.
    turns = [rounds(fresh, s.least, s.many_lanes, s.limits.seed)] if s.least <= len(fresh) < len(everybody) else []
    if not turns or len(everybody) <= 8 or 4 * len(fresh) < 3 * len(everybody):
        turns.append(rounds(everybody, s.least, s.many_lanes, s.limits.seed))
    ratios: list[float | None] = []
    variant = s.lenses(s.group)[0].variant
    for groups in chain.from_iterable(turns):
        answers: list[Answer] = yield Join([_ask(each, variant) for each in groups])
        if any(answer.passed for answer in answers):
            s.say(
                "Mixed pairings across the group: some pass, so some nodes are good and the others are tried with them."
            )
            return True
        ratios += [answer.result.ratio if answer.result else None for answer in answers if answer.failed]
    if len(ratios) >= 3 and alike(ratios):
        conclude(s, ratios)
    return False


def _ask(nodes: Nodes, variant: Variant) -> Steps[Answer]:
    answer: Answer = yield Ask(nodes, "mixed", Wish(), variant)
    return answer


def conclude(s: Search, ratios: list[float | None]) -> None:
    """Every pairing fails alike: say so and judge from now on against what all reach."""
    known = [ratio for ratio in ratios if ratio is not None]
    s.common = median(known) if known else None
    values = [record.result.value for record in s.ledger.records if record.result.value is not None]
    if s.common is not None and values:
        level = f"every probe fails at about {median(values):.3g} ({s.common:.0%} of what is expected)"
    else:
        level = "every probe fails in the same way"
    s.halted = True
    s.systemic = f"{level}: configuration or fabric, not a node"
    s.say(f"Mixed pairings across domains fail like all others: {s.systemic}.")


def rounds(nodes: Nodes, size: int, lanes: int, seed: int = 0) -> Iterator[list[Nodes]]:
    """Disjoint groups of `size` from far apart, a few rounds of them, each round another pairing.

    Up to eight nodes every pairing is tried (each pair meets once, by the circle method); of more nodes four
    pairings, of each as many groups as there are lanes (at least `_SAMPLE`), spread evenly and a few at a time.
    """
    count = len(nodes)
    if count < size:
        return
    if count == size:
        yield [nodes]
        return
    if size == 2 and count <= 8:
        yield from _circle(nodes)
        return
    groups = count // size
    for turn in range(4):
        # Members of a group stand `groups` apart, shifted a little more in each round.
        rows = [nodes[row * groups : (row + 1) * groups] for row in range(size)]
        made = [
            tuple(row[(index + (turn + seed) * number) % groups] for number, row in enumerate(rows))
            for index in range(groups)
        ]
        step = max(1, len(made) // max(lanes, _SAMPLE))
        spread = [made[index] for first in range(step) for index in range(first, len(made), step)]
        chosen = spread[: max(lanes, _SAMPLE)]
        for first in range(0, len(chosen), max(lanes, 4)):
            yield chosen[first : first + max(lanes, 4)]


def _circle(nodes: Nodes) -> Iterator[list[Nodes]]:
    ring: list[str | None] = list(nodes)
    if len(ring) % 2:
        ring.append(None)
    half = len(ring) // 2
    # Begin with the pairing that joins distant nodes: the circle is filled by halves.
    ring = ring[:half] + ring[half:]
    for _ in range(len(ring) - 1):
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(a, b) for a, b in pairs if a is not None and b is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]
