"""From the state of a search to findings: names, sets, standings of all nodes, and the story for the operator."""

from __future__ import annotations

from itertools import groupby

from isolate.model import Certified, Findings, NodeResult, ProbeRecord, Standing, Suspect, Verdict, listed
from isolate.search import Accused, Search

_TOLD = ("failed", "unclear")
_SHOWN = 10
"""Rounds told from the beginning and from the end of a long search."""
_WORDS = {
    "hint": "what hints point at, and the rest without it",
    "split": "parts",
    "pin": "single nodes with known-good partners",
    "confirm": "single nodes with other partners",
    "alone": "single nodes alone",
    "layer": "with and without NVLink",
    "rail": "one rail at a time",
    "repeat": "once more",
    "cross": "crossings of parts",
    "size": "smaller groups",
    "mixed": "mixed pairings across the group",
    "quiet": "suspects while nothing else ran in their leaf",
    "certify": "all others together",
}


def findings(s: Search) -> Findings:
    """Everything that can be said now."""
    sets = list(s.sets)
    if s.unexplained:
        sets.append(frozenset(s.unexplained))
    if s.limit:
        implicated = smallest_implicated(s)
        if implicated:
            sets.insert(0, implicated)
    transient = not_reproduced(s)
    verdict = verdict_of(s, sets, transient)
    certified = Certified(*s.certified) if s.certified and (s.found() or s.doubtful or s.first.lost) else None
    return Findings(
        verdict=verdict,
        rounds=s.scheduler.rounds,
        probes=tuple(s.ledger.records),
        suspects=tuple(suspect(accused) for accused in sorted(s.suspects.values(), key=lambda a: s.map.rank[a.node])),
        links=tuple(s.links[between] for between in sorted(s.links)),
        domains=tuple(s.domains[name] for name in sorted(s.domains)),
        scale=s.scale,
        systemic=s.systemic,
        transient=transient,
        certified_rest=certified,
        nodes={node: standing(s, node, sets) for node in dict.fromkeys((*s.group, *s.suspects))},
        sets=tuple(sets),
        lost=tuple(node for node in s.group if node in s.ledger.lost),
        limit=s.limit or doubts(s, verdict),
        story=story(s, sets, transient, certified),
    )


def suspect(accused: Accused) -> Suspect:
    """The suspect as it is reported."""
    return Suspect(
        accused.node,
        accused.layer or "node",
        accused.rail,
        "probable" if accused.probable or not accused.quiet else "confirmed",
        tuple(accused.evidence),
        accused.kind,
        tuple(accused.alternatives) if accused.layer else ("the layer was not asked for: the search ended before",),
        accused.rails,
    )


def verdict_of(s: Search, sets: list[frozenset[str]], transient: str) -> Verdict:
    """One word for the whole: the first that holds."""
    words: tuple[tuple[object, Verdict], ...] = (
        (s.limit or s.unexplained, "inconclusive"),
        (s.systemic, "systemic"),
        (s.scale, "scale"),
        (s.suspects or s.links or s.domains, "isolated"),
        (sets or s.doubtful, "inconclusive"),
        (transient, "not-reproduced"),
        (s.first.lost and s.certified, "lost"),
    )
    return next((word for holds, word in words if holds), "inconclusive")


def doubts(s: Search, verdict: Verdict) -> str:
    """Words for an inconclusive end that no limit caused."""
    if s.unexplained:
        return f"{len(s.unexplained)} nodes fail together and no cause could be found among them"
    if verdict == "inconclusive" and s.doubtful and not s.sets and not s.unexplained:
        return "; ".join(f"{node}: {why}" for node, why in list(s.doubtful.items())[:4])
    return ""


def not_reproduced(s: Search) -> str:
    """Words for a failure that came once: how often it did not come again, and what that proves."""
    if s.found() or s.doubtful or s.systemic or s.limit or s.unexplained or not s.unreproduced or s.first.lost:
        return ""  # where a node was lost in the failing run, that explains it
    passes = sum(each.passes for each in s.unreproduced if len(each.nodes) == max(len(u.nodes) for u in s.unreproduced))
    bound = 1 - 0.05 ** (1 / passes) if passes < 3 else 3 / passes
    words = f"failed once, then passed {passes} times: it may still come in up to {bound:.0%} of runs (95 %)"
    if s.ledger.lost:
        words += f"; without {listed(tuple(s.ledger.lost))}, lost"
    return words


def smallest_implicated(s: Search) -> frozenset[str]:
    """The smallest set that failed and of which no cause is named; members proven good are left out if any remain."""
    named = {*s.suspects, *(node for group in s.sets for node in group)}
    best: frozenset[str] = frozenset()
    layers = s.lenses(s.group)[0].layers
    for record in s.ledger.records:
        nodes = set(record.probe.nodes) - s.ledger.lost.keys()
        if record.result.outcome not in _TOLD or nodes & named or record.probe.variant.rail is not None:
            continue
        unproven = frozenset(node for node in nodes if not s.ledger.good(node, layers)) or frozenset(nodes)
        if not best or len(unproven) < len(best):
            best = unproven
    if best or named or s.links or s.domains:
        return best
    return frozenset(node for node in s.group if node not in s.ledger.lost)


def standing(s: Search, node: str, sets: list[frozenset[str]]) -> NodeResult:
    """What isolation says of one node, with the faults that its passes would have missed."""
    passes, fails = s.ledger.passes.get(node, 0), s.ledger.fails.get(node, 0)
    word: Standing
    evidence: tuple[str, ...]
    if node in s.suspects:
        accused = s.suspects[node]
        word, evidence = accused.kind, tuple(accused.evidence)
    elif node in s.ledger.lost:
        word, evidence = "lost", ("it went away in the middle",)
    elif any(node in group for group in sets):
        word, evidence = "inconclusive", ("member of a set that fails",)
    elif node in s.doubtful:
        word, evidence = "inconclusive", (s.doubtful[node],)
    elif passes and not s.systemic:
        word, evidence = "cleared", (error_rate(passes, s.limits.repeats),)
    elif passes or fails:
        word, evidence = "inconclusive", (f"{passes} passes, {fails} fails",)
    else:
        word, evidence = "untested", ()
    return NodeResult(word, evidence, passes, fails)


def error_rate(passes: int, repeats: int) -> str:
    """How likely a fault must show to be seen in so many passes: p with (1 - p)^(passes x repeats) = 5 %."""
    least = 1 - 0.05 ** (1 / (passes * max(1, repeats)))
    runs = "1 pass" if passes == 1 else f"{passes} passes"
    return (
        f"{runs} of {counted(repeats, 'repeat')}: "
        f"a fault that shows in less than {least:.0%} of repeats may be missed (95 %)"
    )


def story(s: Search, sets: list[frozenset[str]], transient: str, certified: Certified | None) -> tuple[str, ...]:
    """What was run, what it told, what follows, what could not be told apart."""
    told = [s.first.reason] if s.first.reason else []
    if s.first.value is not None and s.first.expected is not None:
        told.append(f"{s.first.value:.4g} of {s.first.expected:.4g}")
    lines = [f"{counted(len(s.group), 'node')} failed together{': ' if told else ''}{', '.join(told)}."]
    lines += rounds_told(s)
    lines += s.story
    lines.append(f"{counted(len(s.ledger.records), 'probe')} in {counted(s.scheduler.rounds, 'round')}.")
    lines += [f"{each.node}: not told apart: {words}." for each in s.suspects.values() for words in each.alternatives]
    lines += [f"{node} is neither cleared nor accused: {why}." for node, why in s.doubtful.items()]
    if s.limit and sets:
        lines.append(f"Smallest set still implicated: {s.names(sets[0])}.")
    if transient:
        lines.append(f"Not reproduced: {transient}. It is not called harmless.")
    if certified is not None:
        value = f", {certified.value:.4g}" if certified.value is not None else ""
        lines.append(f"The other {counted(len(certified.nodes), 'node')} passed together{value}.")
    return tuple(lines)


def rounds_told(s: Search) -> list[str]:
    """A sentence for each round, or for rounds of one purpose in a row: what ran, what failed.

    Of a long search the first and the last sentences are kept.
    """
    rounds: dict[int, dict[str, list[ProbeRecord]]] = {}
    for record in s.ledger.records:
        rounds.setdefault(record.probe.round, {}).setdefault(record.probe.purpose, []).append(record)
    lines = []
    for _, some in groupby(sorted(rounds.items()), key=lambda each: tuple(each[1])):
        alike = list(some)
        by = {purpose: [record for _, told in alike for record in told[purpose]] for purpose in alike[0][1]}
        first, last = alike[0][0], alike[-1][0]
        when = f"Round {first}" if first == last else f"Rounds {first}–{last}"
        lines.append(
            f"{when}: " + "; ".join(purpose_told(s, purpose, records) for purpose, records in by.items()) + "."
        )
    if len(lines) > 2 * _SHOWN:
        lines[_SHOWN:-_SHOWN] = [f"… {len(lines) - 2 * _SHOWN} more rounds …"]
    return lines


def purpose_told(s: Search, purpose: str, records: list[ProbeRecord]) -> str:
    """What the probes of one purpose in one round told, the failing ones by name."""
    failing = list(dict.fromkeys(record.probe.about for record in records if record.result.outcome == "failed"))
    passing = sum(record.result.outcome == "passed" for record in records)
    told = [f"{passing} passed"] if passing else []
    if failing:
        names = ", ".join(nodes[0] if len(nodes) == 1 else f"{{{s.names(nodes)}}}" for nodes in failing[:3])
        told.append(f"{names} failed" if len(failing) <= 3 else f"{len(failing)} failed, among them {names}")
    unsure = sum(record.result.outcome in ("unclear", "invalid") for record in records)
    if unsure:
        told.append(f"{unsure} told nothing for sure")
    return f"{_WORDS.get(purpose, purpose)}, " + ", ".join(told)


def counted(number: int, word: str) -> str:
    """`1 probe`, `2 probes`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
