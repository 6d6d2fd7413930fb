"""Bracket the size from which a group fails although none of its parts does."""

from __future__ import annotations

from isolate.model import ScaleFinding
from isolate.requests import Answer, Ask, Steps, Wish
from isolate.search import Search

Nodes = tuple[str, ...]


def bracket(s: Search) -> Steps[bool]:
    """Binary search for the smallest failing size in the smallest set that fails as a whole."""
    group = min((s.present(nodes) for nodes in s.size_sets), key=len)
    passing, failing = min(s.ledger.largest_passing, len(group) - 1), len(group)
    if s.ledger.largest_passing >= len(group):
        return _not_size(s, group)
    while failing - passing > 1:
        middle = (passing + failing) // 2
        answer: Answer = yield Ask(group[:middle], "size", Wish())
        if answer.failed:
            failing = middle
        elif answer.passed:
            passing = middle
        else:
            break
    everybody = s.present(s.group)
    others = everybody[-failing:]
    note = ""
    if others != group[:failing]:
        check: Answer = yield Ask(others, "size", Wish())
        if check.passed:
            note = f"{failing} other nodes pass together: it may be the span of these nodes and not their number"
        elif check.failed:
            note = f"{failing} other nodes fail as well"
    s.scale = ScaleFinding(failing, passing, note)
    s.say(
        f"Groups fail from {failing} nodes on and pass up to {passing}, whichever part is taken: "
        f"size or span, no node is accused{'; ' + note if note else ''}."
    )
    return True


def _not_size(s: Search, group: Nodes) -> bool:
    s.sets.append(frozenset(group))
    s.size_sets.clear()
    s.say(f"{s.names(group)} fail together although larger groups pass: what they share could not be told.")
    return False
