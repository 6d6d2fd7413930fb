"""Step 2: split a failing set into parts, run them together, go on with those that fail.

The number of parts fills the free lanes. A part that fails goes on at once, whatever its siblings do. When every part
passes, the failure lies between parts, or came and went: the set runs once more, and its parts too, before anything is
concluded (`unions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isolate.mixed import mix
from isolate.pin import Verdict, pin_all
from isolate.requests import Answer, Ask, Join, Steps, Turn, Wait, Wish
from isolate.search import FABRIC, OUTSIDE, SCALE_UP, Lens, Search, Unreproduced
from isolate.unions import union

Nodes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """How a part ended."""

    nodes: Nodes
    outcome: Literal["passed", "failed", "unclear", "unknown", "nobody"]
    explained: bool = False


def explain(s: Search, group: Nodes) -> Steps[bool]:
    """Find out why `group` fails as the case runs it, through every lens that the group needs."""
    lenses = s.lenses(group)
    if len(lenses) == 1:
        return (yield from descend(s, group, lenses[0]))
    for lens in lenses:
        if lens is FABRIC:
            found = yield from descend(s, group, lens, alone=False)
        else:
            parts = by_domain(s, group) if lens is SCALE_UP else transversals(s, group)
            verdict = yield from try_parts(s, [nodes for nodes in parts if len(nodes) > 1], lens)
            found = verdict == "explained"
        if found or s.halted:
            return found
    across = FABRIC if FABRIC in lenses else OUTSIDE
    return (yield from reproduce(s, group, by_domain(s, group), across))


def transversals(s: Search, group: Nodes) -> list[Nodes]:
    """Groups with one node of each NVLink domain: they load the fabric only, and run side by side."""
    columns = by_domain(s, group)
    rows = [[column[row] for column in columns if row < len(column)] for row in range(max(map(len, columns)))]
    while len(rows) > 1 and len(rows[-1]) < s.least:
        rows[-2:] = [rows[-2] + rows[-1]]
    return [s.map.order(row) for row in rows]


def by_domain(s: Search, group: Nodes) -> list[Nodes]:
    """The group's members by NVLink domain."""
    domains: dict[str, list[str]] = {}
    for node in group:
        domains.setdefault(s.map.nvlink[node], []).append(node)
    return [tuple(nodes) for nodes in domains.values()]


def descend(s: Search, group: Nodes, lens: Lens, *, alone: bool = True) -> Steps[bool]:
    """Split a failing set until a cause is named; False when nothing in it fails any more.

    `alone`: this lens is the only one, so that a set whose parts all pass is a union to be explained here.
    """
    group = s.present(group)
    if not group:
        return True
    yield from look_around(s, group)
    if s.halted:
        return False
    if (s.sequential or lens is SCALE_UP) and len(group) >= 2 * s.least:
        return (yield from halve(s, group, lens))
    share = s.scheduler.share
    parts: list[Nodes] = []
    # What comes and goes is missed once in a while: the parts of a small set run twice before more is made of it.
    for purpose in ("split", "repeat") if 4 * len(group) <= len(s.group) else ("split",):
        one_by_one = pins_now(s, group, lens, share)
        parts = s.map.cut(group, len(group)) if one_by_one else s.map.cut(group, share, s.least)
        if one_by_one:
            verdict = yield from pin_all(s, group, lens)
        else:
            verdict = yield from try_parts(s, parts, lens, purpose)
        if verdict != "cleared":
            return verdict == "explained"
    return alone and len(group) > 1 and (yield from reproduce(s, group, parts, lens))


def look_around(s: Search, group: Nodes) -> Steps[None]:
    """Wait for the results that come together; where nearly everything fails, look at the whole before its parts."""
    yield Turn()
    if s.gate is not None:
        yield Wait(s.gate)
    elif s.looks_systemic():
        yield from mix(s, group)


def pins_now(s: Search, group: Nodes, lens: Lens, share: int) -> bool:
    """Whether the members are asked one by one: the set is small, or the lanes suffice and partners exist."""
    if len(group) < 2 * s.least or lens is OUTSIDE:
        return True
    if len(group) > share:
        return False
    needed = len(group) * (s.least - 1)
    good = 0
    for leaf in s.ledger.good_leaves():
        good += sum(1 for node in s.ledger.good_in_leaf(leaf) if s.ledger.good(node, lens.layers))
        if good >= needed:
            return True
    return False


def try_parts(s: Search, parts: Sequence[Nodes], lens: Lens, purpose: str = "split") -> Steps[Verdict]:
    """Run parts side by side and go on with each that fails; `explained` when a cause was found in any."""
    ended: list[Part] = yield Join([part(s, nodes, lens, purpose) for nodes in parts])
    if any(each.explained for each in ended):
        return "explained"
    return "unexplained" if s.halted else "cleared"


def part(s: Search, nodes: Nodes, lens: Lens, purpose: str = "split") -> Steps[Part]:
    """Run one part; if it does not pass, find out why."""
    answer: Answer = yield ask_part(nodes, lens, purpose)
    s.tally(answer.result, failed=answer.failed)
    if answer.passed:
        return Part(nodes, "passed")
    if answer.outcome == "nobody":
        return Part(nodes, "nobody")
    if len(nodes) == 1 and not answer.failed:
        s.doubtful.setdefault(nodes[0], why_doubtful(answer))
        return Part(nodes, answer.outcome, True)
    explained = yield from descend(s, nodes, lens)
    return Part(nodes, answer.outcome, explained)


def ask_part(nodes: Nodes, lens: Lens, purpose: str) -> Ask:
    """The probe of a part: padded to the minimum group, and across domains where the lens needs that."""
    wish = Wish("domain", lens.layers, least=0) if lens is SCALE_UP else Wish("none", lens.layers)
    return Ask(nodes, purpose, wish, lens.variant)


def why_doubtful(answer: Answer) -> str:
    """Words for a probe that proves nothing."""
    if answer.outcome == "unclear":
        return "its value stays within the grey band around the floor"
    reason = answer.result.reason if answer.result else ""
    return "its probes told nothing" + (f" ({reason})" if reason else "")


def halve(s: Search, group: Nodes, lens: Lens) -> Steps[bool]:
    """One lane: a whole failing set allows an inference — left half passed, so the fault is in the right half."""
    failing = group
    siblings: list[Nodes] = []
    proven = False
    while len(group) > s.least:
        left, *rest = s.map.cut(group, 2, s.least)
        if not rest:
            break
        answer: Answer = yield ask_part(left, lens, "split")
        if answer.failed:
            siblings.append(rest[0])
            failing = group = left
        elif answer.passed:
            proven = True
            group = rest[0]
        else:
            break
    while siblings and not proven:
        # Every left half failed, so nobody is known to be good yet: the halves left over, the smallest first.
        nearest: Answer = yield ask_part(siblings.pop(), lens, "split")
        proven = nearest.passed
    verdict = yield from pin_all(s, group, lens)
    if verdict != "cleared":
        return verdict == "explained"
    parts = s.map.cut(failing, 2, s.least)
    if len(parts) == 1:
        parts = s.map.cut(failing, len(failing))
    return (yield from reproduce(s, failing, parts, lens))


def reproduce(s: Search, group: Nodes, parts: Sequence[Nodes], lens: Lens) -> Steps[bool]:
    """Step 4: a set failed and all its parts passed. Run it again, and the parts, then look between the parts."""
    group = s.present(group)
    variant = lens.variant
    told: Answer = yield Ask(group, "repeat", Wish("none", lens.layers), variant)
    if told.passed and lens.name == "fabric" and variant.mnnvl is False:
        lens = OUTSIDE  # what fails needs NVLink on: look between the parts as the case runs
        told = yield Ask(group, "repeat", Wish("none", lens.layers), lens.variant)
    if not told.failed:
        s.unreproduced.append(Unreproduced(group, 1))
        s.say(f"{s.names(group)}: all parts passed, and together they passed too when run again.")
        return False
    s.say(f"{s.names(group)}: every part passes, together they fail again.")

    def again(some: Sequence[Nodes]) -> Steps[bool]:
        s.shaky = True
        usable = [each for each in some if len(each) >= s.least]
        return (yield from try_parts(s, usable, lens, "repeat")) == "explained"

    return (yield from union(s, parts, lens, again))
