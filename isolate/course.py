"""The course of an isolation from the failing run to the certified rest.

What is known comes first (hints, suspects of earlier cases), then the search, then a failing probe of every suspect
with nothing else in its leaf, then the run of all others together. As long as that one fails something is unexplained
and the search goes on with the reduced group.
"""

from __future__ import annotations

from collections.abc import Iterable

from isolate.pin import pin, pin_all
from isolate.requests import Answer, Ask, Join, Steps, Wish
from isolate.search import PLAIN, Accused, Lens, Search, Unreproduced
from isolate.size import bracket
from isolate.split import descend, explain

Nodes = tuple[str, ...]

_FRUITLESS = 2
"""Searches of a failing rest that may end with nothing found before the rest is reported as it is."""


def course(s: Search) -> Steps[None]:
    """All steps in their order."""
    known = yield from use_known(s)
    if not known:
        yield from explain(s, s.present(s.group))
    fruitless = 0
    while not s.halted:
        yield from confirm_quietly(s)
        if s.size_sets and (yield from bracket(s)):
            return
        failing = yield from certify(s)
        if not failing:
            return
        before = s.found()
        yield from explain_rest(s, failing)
        fruitless = 0 if s.found() > before else fruitless + 1
        if fruitless == _FRUITLESS:
            s.unexplained = failing
            s.say(f"{s.names(failing)} fail together, and no part of them could be made to fail: unexplained.")
            return
    s.halted = False
    yield from outliers(s)


# Step 1


def hinted(s: Search) -> dict[str, str]:
    """Nodes of the group that something points at, and what; few, or they say nothing."""
    hints: dict[str, str] = {}
    for node, why in s.evidence.suspects.items():
        hints.setdefault(node, why)
    for hint in s.first.hints:
        hints.setdefault(hint.node, hint.why)
        if hint.peer:
            hints.setdefault(hint.peer, f"{hint.node} names it: {hint.why}")
    present = set(s.present(s.group))
    hints = {node: why for node, why in hints.items() if node in present}
    few = max(1, min(len(s.group) // 3, s.many_lanes - 1))
    return hints if len(hints) <= few else {}


def use_known(s: Search) -> Steps[bool]:
    """Run the group without the hinted nodes, and each of those with a partner; True when that found a cause."""
    hints = hinted(s)
    pairs: dict[str, Nodes] = {}
    rest = [node for node in s.present(s.group) if node not in hints]
    plain = s.lenses(s.group) == [PLAIN]
    if plain:
        for node in hints:
            mates = sorted(rest, key=lambda each: (-s.map.depth(node, each), s.map.rank[each]))[: s.least - 1]
            pairs[node] = (node, *mates)
            rest = [each for each in rest if each not in mates]
    if not hints or len(rest) < s.least:
        return False
    s.say("First those that something points at: " + "; ".join(f"{node} ({why})" for node, why in hints.items()) + ".")
    before = s.found()
    yield Join([_rest_without(s, tuple(rest)), *(_hint(s, node, pairs.get(node)) for node in hints)])
    return s.found() > before


def _rest_without(s: Search, rest: Nodes) -> Steps[bool]:
    answer: Answer = yield Ask(rest, "hint", Wish())
    if answer.failed:
        s.say("The group without them fails as well.")
        return (yield from explain(s, rest))
    return False


def _hint(s: Search, node: str, pair: Nodes | None) -> Steps[None]:
    if pair is not None:
        answer: Answer = yield Ask(pair, "hint", Wish())
        if not answer.passed:
            yield from pin(s, node, PLAIN)
        return
    for lens in s.lenses(s.group):
        verdict = yield from pin(s, node, lens)
        if verdict == "suspect":
            return


# Confirmation without neighbours


def confirm_quietly(s: Search) -> Steps[None]:
    """Every suspect fails at least once while no other probe runs in its leaf."""
    yield Join([_quietly(s, accused) for accused in list(s.suspects.values()) if not accused.quiet])


def _quietly(s: Search, accused: Accused) -> Steps[None]:
    lens = accused.lens
    passes = 0
    for _ in range(4 if accused.kind == "intermittent" else 2):
        answer: Answer = yield Ask((accused.node,), "quiet", Wish(lens.first, lens.layers), lens.variant, quiet=True)
        if answer.failed:
            accused.quiet = True
            accused.fails += 1
            accused.evidence.append("failed with no other probe in its leaf")
            return
        if not answer.passed:
            accused.probable = True
            return
        accused.passes += 1
        passes += 1
        s.shaky = True
    del s.suspects[accused.node]
    s.ledger.barred.discard(accused.node)
    s.doubtful[accused.node] = f"it failed only while other probes ran in its leaf, and passed {passes} times without"
    s.say(f"{accused.node} passes when nothing else runs in its leaf: not accused, the leaf may be overloaded.")


# Step 6


def rests(s: Search) -> list[Nodes]:
    """The groups that must pass if all is explained: without suspects, and without either end of each link."""
    out = {*s.suspects, *s.ledger.lost, *s.doubtful, *(node for group in s.sets for node in group)}
    for name in s.domains:
        out.update(s.map.members(name))
    base = tuple(node for node in s.group if node not in out)
    if not s.links:
        return [base]
    sides = []
    for side in (0, 1):
        ends = {node for link in s.links.values() for node in _end(s, link.between[side], link.level)}
        sides.append(tuple(node for node in base if node not in ends))
    return sides


def _end(s: Search, name: str, level: str) -> Iterable[str]:
    return (name,) if level == "node" else s.map.members(name)


def certify(s: Search) -> Steps[Nodes]:
    """Run the rest; returns the group that still fails, or nothing."""
    doubtful = s.shaky or any(accused.kind == "intermittent" for accused in s.suspects.values())
    for rest in rests(s):
        if len(rest) < s.least:
            continue
        for _ in range(2 if doubtful else 1):
            answer: Answer = yield Ask(rest, "certify", Wish())
            if answer.failed:
                if not s.found():
                    s.shaky = True
                return answer.core
            if not answer.passed:
                return ()
            if not s.found():
                s.unreproduced.append(Unreproduced(answer.core, 1))
        if s.certified is None or len(answer.core) > len(s.certified[0]):
            s.certified = (answer.core, answer.result.value if answer.result else None)
    return ()


def explain_rest(s: Search, rest: Nodes) -> Steps[bool]:
    """The rest fails: nodes that no probe has cleared yet come first, then the whole."""
    s.say(f"The other {len(rest)} nodes still fail together: the search goes on with them.")
    for lens in s.lenses(rest):
        unproven = s.unproven(rest, lens)
        if unproven and len(unproven) <= len(rest) // 2:
            found = yield from _unproven(s, unproven, lens)
            if found:
                return True
    return (yield from explain(s, rest))


def _unproven(s: Search, nodes: Nodes, lens: Lens) -> Steps[bool]:
    if len(nodes) < 2 * s.least:
        return (yield from pin_all(s, nodes, lens)) == "explained"
    return (yield from descend(s, nodes, lens, alone=False))


# Step 7


def outliers(s: Search) -> Steps[None]:
    """All is slow alike; a node much worse than that is still named."""
    if s.common is None:
        return
    worse: list[Nodes] = []
    for record in list(s.ledger.records):
        if record.result.outcome not in ("failed", "unclear") or record.result.lost:
            continue
        if s.judge(record.result) == "passed":
            s.ledger.clear_again(record.probe)
        elif record.probe.purpose in ("split", "mixed"):
            worse.append(record.probe.about)
    worse.sort(key=len)
    seen: set[str] = set()
    for nodes in worse:
        if seen.isdisjoint(nodes):
            seen.update(nodes)
            yield from descend(s, nodes, s.lenses(nodes)[0], alone=False)
    yield from confirm_quietly(s)
    if s.suspects:
        s.say("Much worse than the common level: " + s.names(s.suspects) + ".")
