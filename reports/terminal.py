"""The summary at the end of a session: all that a tired operator needs, on one screen.

Cases are counted by entry and scale (a thousand cases of one entry are one line), failures are listed one by one up to
a limit, the search for the cause is drawn as a tree, the files come last. Without a terminal, or with an encoding that
has no box characters, the same text comes plain.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reports import words
from reports.record import CaseRecord, IsolationRecord, ProbeRecord, Record
from reports.text import duration, fold, number, one_line, plural, size

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "error": "magenta",
    "inconclusive": "yellow",
    "skipped": "dim",
    "unclear": "yellow",
    "invalid": "dim",
    "PASSED": "bold green",
    "FAILED": "bold red",
    "INCOMPLETE": "bold yellow",
}
MOST_ROWS = 14
MOST_FINDINGS = 10
MOST_TREES = 2
MOST_PROBES = 3
"""Probes of one round and outcome that are drawn one by one."""
MOST_ROUNDS = 7
ASCII = str.maketrans("–…×·│├└─", "-~x||+`-")


def summary(
    record: Record, *, width: int = 100, color: bool = False, ascii_only: bool = False, files: Sequence[str] = ()
) -> str:
    """The summary as text, lines at most `width` (at least 60) characters wide; `files` are what was written."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(60, width),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Group(*_parts(record, files)))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return text.translate(ASCII) if ascii_only else text


def _parts(record: Record, files: Sequence[str]) -> Iterator[RenderableType]:
    yield _title(record)
    if record.cases:
        yield Text()
        yield _indented(_cases(record))
    yield from _section("findings", list(_findings(record)))
    trees = [_tree(case.id, case.isolation) for case in record.cases if case.isolation is not None]
    for tree in trees[:MOST_TREES]:
        yield Text()
        yield _indented(tree)
    if len(trees) > MOST_TREES:
        yield Text(f"  {len(trees) - MOST_TREES} more isolations are in report.json")
    yield from _section("not tested", list(_untested(record)))
    if footer := list(_footer(record, files)):
        yield Text("\n" + "\n".join(f"  {line}" for line in footer), style="dim")


def _title(record: Record) -> Text:
    counts = Counter(case.verdict for case in record.cases)
    title = Text.assemble(("clusterproof ", "bold"), (record.result, STYLES[record.result]))
    facts = [plural(len(record.nodes), "node")]
    if record.platform.cluster:
        facts.append(f"{record.platform.cluster} cluster")
    facts.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no case ran")
    if record.run_state not in {"finished", "running"}:
        facts.append(f"stopped early: {record.run_state}")
    return title.append("  " + " · ".join(facts))


def _cases(record: Record) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("case", no_wrap=True, overflow="ellipsis")
    table.add_column("result", no_wrap=True)
    for heading in ("nodes", "busbw", "expected", "floor", "at size", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in record.cases:
        groups.setdefault((case.entry, case.scale), []).append(case)
    # Failures first where not all rows fit: nobody reads a screen of green to find the red line below it.
    shown = list(groups.items())
    if len(shown) > MOST_ROWS:
        shown = sorted(shown, key=lambda each: not any(case.failing for case in each[1]))[:MOST_ROWS]
    for (entry, scale), cases in shown:
        table.add_row(*_row(f"{entry} {scale}".strip(), cases))
    if len(groups) > MOST_ROWS:
        table.add_row(f"… {len(groups) - MOST_ROWS} more in report.json", "")
    return table


def _row(name: str, cases: list[CaseRecord]) -> Iterator[str | Text]:
    counts = Counter(case.verdict for case in cases)
    yield name
    result = Text()
    for verdict, count in sorted(counts.items(), key=lambda each: each[0] == "passed"):
        result.append(", " if result else "")
        result.append(f"{count} {verdict}" if len(cases) > 1 else verdict, STYLES[verdict])
    yield result
    yield words.extremes([float(len(case.nodes)) for case in cases if case.nodes])
    figures = [words.deciding(case) for case in cases]
    unit = next((unit for value, unit in figures if value is not None), "")
    yield f"{words.extremes([value for value, _ in figures if value is not None])} {unit}".strip()
    yield words.extremes([case.expected for case in cases if case.expected is not None])
    yield words.extremes([floor for case in cases if (floor := words.floor(case)) is not None])
    sizes = {
        max((row.size for table in case.measurement.tables for row in table.rows), default=0)
        for case in cases
        if case.measurement is not None
    } - {0}
    yield size(max(sizes)) if sizes else "–"
    starts = [case.started for case in cases if case.started is not None]
    ends = [case.ended for case in cases if case.ended is not None]
    yield duration(max(ends) - min(starts)) if starts and ends else "–"


def _findings(record: Record) -> Iterator[tuple[str, str]]:
    """(what, why) of everything a person must act on, nodes first."""
    named: dict[str, list[str]] = {}
    lines: list[tuple[str, str]] = []
    for case in record.cases:
        found = case.isolation
        for suspect in found.suspects if found is not None else ():
            named.setdefault(suspect.node, []).append(words.suspect_line(suspect))
        if found is not None:
            lines += words.other_findings(found)
            if found.certified_rest is not None:
                lines.append(("certified", words.certified_line(found.certified_rest)))
        elif case.failing:
            lines.append((case.id, one_line(case.message)))
    for node in record.nodes:
        if node.verdict in {"suspect", "intermittent", "lost"} and node.name not in named and len(named) < 1000:
            named[node.name] = [reason.split(": ", 1)[-1] for reason in node.reasons]
            lines = [line for line in lines if line[0] not in {reason.split(": ", 1)[0] for reason in node.reasons}]
    yield from (
        (name, why[0] + (f" (and in {plural(len(why) - 1, 'more case')})" if why[1:] else ""))
        for name, why in named.items()
    )
    yield from dict.fromkeys(lines)


def _untested(record: Record) -> Iterator[tuple[str, str]]:
    by_reason: dict[str, list[str]] = {}
    for excluded in record.excluded:
        by_reason.setdefault(excluded.reason + (" (waived)" if excluded.waived else ""), []).append(excluded.node)
    for node in record.nodes:
        if node.verdict == "untested":
            by_reason.setdefault("not exercised by any case", []).append(node.name)
    for case in record.cases:
        if case.verdict == "skipped":
            by_reason.setdefault(one_line(case.message) or "skipped", []).append(case.id)
    yield from ((fold(names, 3), reason) for reason, names in by_reason.items())


def _section(title: str, lines: list[tuple[str, str]]) -> Iterator[RenderableType]:
    if not lines:
        return
    yield Text()
    yield Text(f"  {title}", style="bold")
    # Not a table: rich would squeeze the names to make room for the reasons, and the names are the point.
    widest = min(36, max(len(what) for what, _ in lines[:MOST_FINDINGS]))
    for what, why in lines[:MOST_FINDINGS]:
        line = Text("    ", no_wrap=True, overflow="ellipsis")
        yield line.append(f"{what:{widest}}", "bold" if title == "findings" else "").append(f"  {why}")
    if len(lines) > MOST_FINDINGS:
        yield Text(f"    … {len(lines) - MOST_FINDINGS} more in report.json")


def _tree(case_id: str, found: IsolationRecord) -> Tree:
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
    tree.add(Text(one_line(conclusion), style="bold", no_wrap=True, overflow="ellipsis"))
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


def _footer(record: Record, files: Sequence[str]) -> Iterator[str]:
    spent = record.budget
    parts = []
    if spent.used_wall_seconds:
        parts.append(duration(spent.used_wall_seconds))
    if spent.used_node_seconds:
        parts.append(f"{number(round(spent.used_node_seconds / 3600, 2))} node-hours")
    if spent.used_probes:
        parts.append(plural(spent.used_probes, "probe"))
    if parts:
        yield "used: " + " · ".join(parts)
    if files:
        yield "written: " + ", ".join(files)


def _indented(what: RenderableType, by: int = 2) -> Padding:
    return Padding(what, (0, 0, 0, by))
