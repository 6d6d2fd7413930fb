"""Step 3: members of a failing smallest set run with known-good partners, one near and one far.

A suspect fails with `confirm` different partners. What it fails with matters: failing with far partners only is the
fault of its leaf or of the way there; failing with one partner only is a question to that partner and to the link;
failing now and then, whoever the partner is, is an intermittent fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from isolate.boundary import name_link, path_fault
from isolate.mixed import mix, pair_up
from isolate.name import name_part
from isolate.requests import Answer, Ask, Join, Kind, Steps, Wait, Wish
from isolate.search import SCALE_UP, Accused, Lens, Search

Nodes = tuple[str, ...]
Pinned = Literal["suspect", "cleared", "path", "partner", "doubtful", "nobody", "explained"]
Verdict = Literal["explained", "cleared", "unexplained"]


@dataclass(slots=True)
class Tries:
    """What pins of one node told so far."""

    node: str
    fails: list[Answer] = field(default_factory=list)
    passes: list[Answer] = field(default_factory=list)
    other: list[Answer] = field(default_factory=list)
    mate_asked: bool = False
    relaxed: int = 0
    """0: all partners new; 1: new but for one of each group; 2: another group than the last; 3: anybody."""

    @property
    def count(self) -> int:
        """Probes so far."""
        return len(self.fails) + len(self.passes) + len(self.other)

    @property
    def groups(self) -> int:
        """Different groups of partners that it failed with."""
        return len({frozenset(answer.partners) for answer in self.fails})

    @property
    def partners(self) -> frozenset[str]:
        """Partners so far, those that count as used."""
        used = [answer.partners for answer in (*self.fails, *self.passes, *self.other)]
        if self.relaxed == 1:
            used = [each[:1] for each in used]
        elif self.relaxed == 2:
            used = [each[:1] for each in used[-1:]]
        elif self.relaxed == 3:
            used = []
        return frozenset(node for each in used for node in each)


def pin_all(s: Search, group: Nodes, lens: Lens) -> Steps[Verdict]:
    """Pin every member: `explained` when a cause was named, `cleared` when all passed."""
    group = s.present(group)
    verdicts: list[Pinned] = yield Join([pin(s, node, lens) for node in group])
    if all(verdict == "nobody" for verdict in verdicts) and not s.halted:
        verdicts = yield from _with_new_partners(s, group, lens)
    if s.halted:
        return "unexplained"
    by = {word: [node for node, verdict in zip(group, verdicts, strict=True) if verdict == word] for word in verdicts}
    explained = bool(by.get("suspect") or by.get("explained"))
    if by.get("path"):
        explained = (yield from path_fault(s, tuple(by["path"]), lens)) or explained
    if explained:
        return "explained"
    if by.get("nobody"):
        stuck = frozenset(by["nobody"])
        s.sets.append(stuck)
        yield from _alone(s, s.map.order(stuck))
        s.ledger.barred.update(stuck)
        s.say(f"{s.names(stuck)} fail together and no healthy partner exists: one of them, nobody can tell which.")
        return "explained"
    if by.get("doubtful"):
        return "explained"
    return "cleared"


def _alone(s: Search, stuck: Nodes) -> Steps[None]:
    """Without partners a run on one node says who to look at first; it names nobody by itself."""
    if not s.case.single_node or len(stuck) > 8:
        return
    told: list[Answer] = yield Join([_ask_alone(node) for node in stuck])
    failing = [answer.core[0] for answer in told if answer.failed and answer.core]
    if failing and len(failing) < len(stuck):
        s.say(f"Of these {s.names(failing)} fails on its own too, the others do not: look there first.")
    elif not failing:
        s.say("Each of them passes on its own: look at their NICs, cables and the way between them.")


def _ask_alone(node: str) -> Steps[Answer]:
    answer: Answer = yield Ask((node,), "alone", alone=True)
    return answer


def _with_new_partners(s: Search, group: Nodes, lens: Lens) -> Steps[list[Pinned]]:
    """Nobody is known to be good: look for such nodes among mixed pairings, then pin again."""
    if lens is SCALE_UP:
        yield from pair_up(s, s.present(s.map.domains[s.map.nvlink[group[0]]]), lens)
    elif s.gate is not None:
        yield Wait(s.gate)
    else:
        yield from mix(s, group)
    if s.halted:
        return ["nobody"] * len(group)
    verdicts: list[Pinned] = yield Join([pin(s, node, lens) for node in group])
    return verdicts


def pin(s: Search, node: str, lens: Lens) -> Steps[Pinned]:
    """Ask about one node until its probes tell what it is."""
    tries = Tries(node)
    while True:
        if node in s.ledger.lost:
            return "cleared"
        verdict = weigh(s, tries, lens)
        if verdict == "partner":
            return (yield from question_partner(s, tries, lens))
        if verdict is not None:
            return (yield from settle(s, tries, lens, verdict))
        kind = next_kind(s, tries, lens)
        used = tries.partners
        leaves = frozenset(s.map.leaf[partner] for answer in tries.fails for partner in answer.partners)
        wish = Wish(kind, lens.layers, used, leaves if kind != "near" else frozenset())
        purpose = "confirm" if tries.fails else "pin"
        answer: Answer = yield Ask((node,), purpose, wish, lens.variant)
        if answer.outcome == "nobody" and kind != "mate":
            if tries.relaxed == 3 or not used:
                return "nobody" if not tries.fails else (yield from settle(s, tries, lens, _best(s, tries)))
            tries.relaxed += 1
        else:
            take(tries, answer, mate=kind == "mate")


def take(tries: Tries, answer: Answer, *, mate: bool) -> None:
    """Keep an answer; a failure with an unproven mate says nothing."""
    tries.mate_asked = tries.mate_asked or mate
    if answer.passed:
        tries.passes.append(answer)
    elif answer.failed and not mate:
        tries.fails.append(answer)
    elif not mate:
        tries.other.append(answer)


def _best(s: Search, tries: Tries) -> Pinned:
    """The verdict where no further partner can be had."""
    if tries.passes:
        return "doubtful"
    return "suspect" if tries.groups >= min(2, s.limits.confirm) else "nobody"


def weigh(s: Search, tries: Tries, lens: Lens) -> Pinned | None:
    """What the tries tell together; None = ask on."""
    fails, passes = tries.fails, tries.passes
    confirm = s.limits.confirm
    if passes and not fails and not tries.other:
        return "cleared"
    if not passes and (tries.groups >= confirm or (tries.relaxed == 3 and len(fails) >= confirm)):
        return unanimous(s, tries, lens)
    if fails and passes and tries.groups >= confirm:
        return "path" if lens.free and path_pattern(s, tries) is not None else "suspect"
    if len(fails) == 1 and len(passes) >= 2:
        return "partner"
    return "doubtful" if len(tries.other) >= 2 or tries.count >= confirm + 5 else None


def unanimous(s: Search, tries: Tries, lens: Lens) -> Pinned | None:
    """All probes failed, with as many partners as can be had."""
    if tries.groups < min(2, s.limits.confirm):
        return "nobody"
    return None if can_ask_mate(s, tries, lens) else "suspect"


def next_kind(s: Search, tries: Tries, lens: Lens) -> Kind:
    """Where the next partner should stand."""
    if not lens.free:
        return lens.first
    if not tries.count:
        return "any"
    answers = (*tries.fails, *tries.passes)
    near = [answer for answer in answers if is_near(s, tries.node, answer)]
    far = [answer for answer in answers if not is_near(s, tries.node, answer)]
    if tries.fails and not near:
        if has_near_partner(s, tries, lens):
            return "near"
        if can_ask_mate(s, tries, lens):
            return "mate"
    if tries.fails and (not far or len(near) > len(far)):
        return "far"
    return "near" if len(far) > len(near) and has_near_partner(s, tries, lens) else "any"


def is_near(s: Search, node: str, answer: Answer) -> bool:
    """Whether all partners of the answer hang on the node's leaf."""
    return all(s.map.leaf[partner] == s.map.leaf[node] for partner in answer.partners)


def has_near_partner(s: Search, tries: Tries, lens: Lens) -> bool:
    """Whether the leaf has a good node that was not asked yet."""
    return any(
        node != tries.node and node not in tries.partners and s.ledger.good(node, lens.layers)
        for node in s.ledger.good_in_leaf(s.map.leaf[tries.node])
    )


def can_ask_mate(s: Search, tries: Tries, lens: Lens) -> bool:
    """All failures were with far partners and the leaf has nobody proven: any member will do to ask for the leaf."""
    if tries.mate_asked or not lens.free or not s.map.path(tries.node) or len(tries.fails) < s.limits.confirm:
        return False
    if any(is_near(s, tries.node, answer) for answer in tries.fails):
        return False
    mates = s.map.leaves[s.map.leaf[tries.node]]
    return any(node != tries.node and node not in s.ledger.lost and node not in s.ledger.barred for node in mates)


def path_pattern(s: Search, tries: Tries) -> int | None:
    """Number of levels that every passing partner shares and no failing one does: the fault lies at that level."""
    failing = max(meeting(s, tries.node, answer) for answer in tries.fails)
    passing = min(meeting(s, tries.node, answer) for answer in tries.passes)
    return failing if failing < passing else None


def meeting(s: Search, node: str, answer: Answer) -> int:
    """The least number of levels that the node shares with a partner of the answer."""
    return min(s.map.depth(node, partner) for partner in answer.partners)


def settle(s: Search, tries: Tries, lens: Lens, verdict: Pinned) -> Steps[Pinned]:
    """Act on a verdict: accuse, doubt, or let go."""
    node = tries.node
    if verdict == "suspect":
        accused = accuse(s, tries, lens)
        yield from name_part(s, accused)
    elif verdict == "doubtful":
        grey = any(answer.outcome == "unclear" for answer in tries.other)
        s.doubtful[node] = (
            "its value stays within the grey band around the floor"
            if grey
            else f"{len(tries.fails)} of its {tries.count} probes failed"
        )
    elif verdict == "cleared":
        s.clear_of_doubt(node)
    return verdict


def accuse(s: Search, tries: Tries, lens: Lens) -> Accused:
    """Name the node."""
    node = tries.node
    partners = tuple(dict.fromkeys(partner for answer in tries.fails for partner in answer.partners))
    accused = Accused(
        node,
        lens,
        "intermittent" if tries.passes and path_pattern(s, tries) is None else "suspect",
        len(tries.fails),
        len(tries.passes),
        partners,
        quiet=any(answer.quiet for answer in tries.fails),
        probable=tries.groups < s.limits.confirm,
    )
    s.suspects[node] = accused
    s.ledger.barred.add(node)
    s.doubtful.pop(node, None)
    for between in [between for between in s.links if node in between]:
        del s.links[between]  # the node itself explains why it failed with that partner
    if accused.kind == "intermittent":
        s.shaky = True
    accused.evidence.append(
        f"failed {accused.fails} of {accused.fails + accused.passes} probes with known-good partners "
        f"({s.names(partners)}): " + "; ".join(_told(answer) for answer in tries.fails)
    )
    s.say(
        f"{node} failed {accused.fails} of {accused.fails + accused.passes} probes with known-good partners "
        f"({s.names(partners)}): suspect{', intermittent' if accused.kind == 'intermittent' else ''}."
    )
    return accused


def _told(answer: Answer) -> str:
    result = answer.result
    if result is None:
        return "failed"
    if result.value is not None and result.expected is not None:
        return f"with {', '.join(answer.partners)} {result.value:.4g} of {result.expected:.4g}"
    return f"with {', '.join(answer.partners)} {result.reason or 'failed'}"


def question_partner(s: Search, tries: Tries, lens: Lens) -> Steps[Pinned]:
    """The node failed once and passes with others: was it the partner, or the way between the two?"""
    failed = tries.fails[0]
    partners = s.present(failed.partners)
    answers: list[Answer] = yield Join([_ask_partner(node, tries, lens) for node in partners])
    for node, answer in zip(partners, answers, strict=True):
        if answer.failed:
            s.ledger.barred.add(node)
            other: Pinned = yield from pin(s, node, lens)
            if other == "suspect":
                return "explained"
            s.ledger.barred.discard(node)
    again: Answer = yield Ask((tries.node, *partners), "repeat", Wish(), lens.variant)
    if not again.failed:
        s.shaky = True
        s.say(f"{tries.node} failed once with {', '.join(partners)} and then passed with all partners, with these too.")
        return "cleared"
    if len(partners) != 1:
        s.sets.append(frozenset((tries.node, *partners)))
        return "explained"
    named = yield from name_link(s, tries.node, partners[0], lens)
    return "explained" if named else "cleared"


def _ask_partner(node: str, tries: Tries, lens: Lens) -> Steps[Answer]:
    wish = Wish(lens.first, lens.layers, avoid=frozenset((tries.node, *tries.partners)))
    answer: Answer = yield Ask((node,), "confirm", wish, lens.variant)
    return answer
