"""The search for a cause as a tree: a branch a round, failing probes one by one, passing ones counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from rich.tree import Tree

from reports import words
from reports.record import IsolationRecord, ProbeRecord
from reports.text import STYLES, plural

OUTCOMES = ("failed", "unclear", "invalid", "passed")
MOST_PROBES = 3
"""Probes of one round and outcome that are drawn one by one."""


def isolation_tree(case_id: str, found: IsolationRecord, *, most_lines: int = 24) -> Tree:
    """The tree of one case: every round with its probes where that fits, else a line a round, the middle left out."""
    tree = Tree(Text(words.isolation_title(case_id, found), style="bold"), guide_style="dim")
    rounds: dict[int, list[ProbeRecord]] = {}
    for probe in sorted(found.probes, key=lambda probe: probe.round):
        rounds.setdefault(probe.round, []).append(probe)
    full = {number: list(_probes(probes)) for number, probes in rounds.items()}
    room = most_lines - 2
    if sum(1 + len(lines) for lines in full.values()) <= room:
        for number, lines in full.items():
            branch = tree.add(Text(_round_title(number, rounds[number])))
            for line in lines:
                branch.add(line)
    else:
        for text in _middle_out([_round_line(number, probes) for number, probes in rounds.items()], room):
            tree.add(text)
    tree.add(Text(words.conclusion(found), style="bold"))
    return tree


def _round_title(number: int, probes: Sequence[ProbeRecord]) -> str:
    return f"round {number}  {', '.join(dict.fromkeys(probe.purpose for probe in probes if probe.purpose))}".rstrip()


def _round_line(number: int, probes: Sequence[ProbeRecord]) -> Text:
    line = Text(_round_title(number, probes), no_wrap=True, overflow="ellipsis").append(": ")
    for index, (outcome, same) in enumerate(_by_outcome(probes)):
        line.append(", " if index else "").append(f"{len(same)} {outcome}", STYLES[outcome]).append(_figures(same, " "))
    return line


def _middle_out(lines: list[Text], room: int) -> list[Text]:
    """The first and last lines, as many as there is room for, with the number of those between."""
    if len(lines) <= room:
        return lines
    head = room // 2
    tail = room - head - 1
    return [*lines[:head], Text(f"… {plural(len(lines) - head - tail, 'more round')}"), *lines[len(lines) - tail :]]


def _probes(probes: Sequence[ProbeRecord]) -> Iterator[Text]:
    for outcome, same in _by_outcome(probes):
        most = MOST_PROBES if outcome == "failed" or len(same) == 1 else 0
        for probe in same[:most]:
            yield _probe_text(outcome, words.probe_line(probe))
        if rest := same[most:]:
            yield _probe_text(outcome, f"{len(rest)} {'more' if most else 'groups'}{_figures(rest, ', ')}")


def _by_outcome(probes: Sequence[ProbeRecord]) -> Iterator[tuple[str, list[ProbeRecord]]]:
    for outcome in OUTCOMES:
        if same := [probe for probe in probes if probe.outcome == outcome]:
            yield outcome, same


def _figures(probes: Sequence[ProbeRecord], before: str) -> str:
    values = [probe.value for probe in probes if probe.value is not None]
    return f"{before}{words.extremes(values)} {probes[0].unit}".rstrip() if values else ""


def _probe_text(outcome: str, line: str) -> Text:
    return Text(no_wrap=True, overflow="ellipsis").append(f"{outcome:8}", STYLES[outcome]).append(line)
