"""The search for a cause as a tree: a branch a round, failing probes one by one, passing ones counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text
from rich.tree import Tree

from reports import words
from reports.record import IsolationRecord, ProbeRecord
from reports.text import STYLES, one_line, plural

MOST_PROBES = 3
"""Probes of one round and outcome that are drawn one by one."""
MOST_ROUNDS = 7


def isolation_tree(case_id: str, found: IsolationRecord) -> Tree:
    """The tree of one case, of a bounded number of lines."""
    tree = Tree(Text(words.isolation_title(case_id, found), style="bold"), guide_style="dim")
    rounds: dict[int, list[ProbeRecord]] = {}
    for probe in found.probes:
        rounds.setdefault(probe.round, []).append(probe)
    numbers = sorted(rounds)
    left_out = len(numbers) - MOST_ROUNDS
    for number_ in numbers if left_out <= 0 else [*numbers[:2], *numbers[2 - MOST_ROUNDS :]]:
        probes = rounds[number_]
        purposes = ", ".join(dict.fromkeys(probe.purpose for probe in probes if probe.purpose))
        branch = tree.add(Text(f"round {number_}  {purposes}".rstrip()))
        for line in _probes(probes):
            branch.add(line)
        if left_out > 0 and number_ == numbers[1]:
            tree.add(Text(f"… {plural(left_out, 'more round')}"))
    conclusion = found.headline or found.verdict
    if found.certified_rest is not None:
        conclusion = f"{conclusion}; {words.certified_line(found.certified_rest)}"
    tree.add(Text(one_line(conclusion), style="bold"))
    return tree


def _probes(probes: Iterable[ProbeRecord]) -> Iterator[Text]:
    by_outcome: dict[str, list[ProbeRecord]] = {}
    for probe in probes:
        by_outcome.setdefault(probe.outcome, []).append(probe)
    for outcome in ("failed", "unclear", "invalid", "passed"):
        same = by_outcome.get(outcome, [])
        most = MOST_PROBES if outcome == "failed" or len(same) == 1 else 0
        for probe in same[:most]:
            yield _probe_text(outcome, words.probe_line(probe))
        if rest := same[most:]:
            values = [probe.value for probe in rest if probe.value is not None]
            unit = rest[0].unit
            figures = f", {words.extremes(values)} {unit}".rstrip() if values else ""
            yield _probe_text(outcome, f"{len(rest)} {'more' if most else 'groups'}{figures}")


def _probe_text(outcome: str, line: str) -> Text:
    return Text(no_wrap=True, overflow="ellipsis").append(f"{outcome:8}", STYLES[outcome]).append(line)
