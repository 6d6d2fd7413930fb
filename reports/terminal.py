"""The summary at the end of a session: all that a tired operator needs, on one screen.

Cases are counted by entry and scale (a thousand cases of one entry are one line), failures are listed one by one up to
a limit, the search for the cause is drawn as a tree, the files come last. Without a terminal, or with an encoding that
has no box characters, the same text comes plain.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from reports import words
from reports.record import Record
from reports.terminal_cases import case_table
from reports.terminal_tree import isolation_tree
from reports.text import STYLES, duration, fold, number, one_line, plural

MOST_FINDINGS = 10
MOST_ADVICE = 2
"""Likely causes on the screen, each with the command to run; the others are in the failure text."""
MOST_TREES = 2
TREE_LINES = 24
"""For all trees together."""
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
    console.print(Group(*_parts(record, files, console.width)))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return text.translate(ASCII) if ascii_only else text


def _parts(record: Record, files: Sequence[str], width: int) -> Iterator[RenderableType]:
    yield _title(record)
    if record.cases:
        yield Text()
        yield from case_table(record.cases, width)
    yield from _section("findings", list(_findings(record)), width)
    yield from _section("likely causes", list(_advice(record)), width)
    searched = [(case.id, case.isolation) for case in record.cases if case.isolation is not None]
    shown = searched[:MOST_TREES]
    for case_id, found in shown:
        yield Text()
        yield Padding(isolation_tree(case_id, found, most_lines=TREE_LINES // len(shown)), (0, 0, 0, 2))
    if len(searched) > MOST_TREES:
        yield Text(f"  {len(searched) - MOST_TREES} more isolations are in report.json")
    yield from _section("not tested", list(_untested(record)), width)
    if footer := list(_footer(record, files)):
        lines = (wrap(line, width - 2, initial_indent="  ", subsequent_indent="    ") for line in footer)
        yield Text("\n" + "\n".join(line for wrapped in lines for line in wrapped), style="dim")


def _title(record: Record) -> Text:
    counts = Counter(case.verdict for case in record.cases)
    title = Text.assemble(("clusterproof ", "bold"), (record.result, STYLES[record.result]))
    facts = [plural(len(record.nodes), "node")]
    if record.platform.cluster:
        facts.append(f"{record.platform.cluster} cluster")
    facts.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no case ran")
    if record.session.replay_of:
        facts.append("stored logs judged again")
    if record.run_state not in {"finished", "running"}:
        facts.append(f"stopped early: {record.run_state}")
    return title.append("  " + " · ".join(facts))


def _findings(record: Record) -> Iterator[tuple[str, str]]:
    """(what, why) of everything a person must act on: nodes first, then what is more than a node, then the rest."""
    isolated = [(case, case.isolation) for case in record.cases if case.isolation is not None]
    named: dict[str, list[str]] = {}
    for _, found in isolated:
        for suspect in found.suspects:
            named.setdefault(suspect.node, []).append(words.suspect_line(suspect))
    explained = {case.id for case, _ in isolated}
    for node in record.nodes:
        if node.verdict in {"suspect", "intermittent", "lost"} and node.name not in named:
            cases_and_reasons = [reason.partition(": ") for reason in node.reasons]
            named[node.name] = [reason for _, _, reason in cases_and_reasons]
            explained |= {case for case, _, _ in cases_and_reasons}
    for name, why in named.items():
        yield name, (f"in {len(why)} cases: " if len(why) > 1 else "") + (why[0] if why else "")
    yield from dict.fromkeys(line for _, found in isolated for line in words.other_findings(found))
    for case, found in isolated:
        if found.certified_rest is not None:
            where = f" in {case.entry}" if len(isolated) > 1 else ""
            yield "certified", words.certified_line(found) + where
    yield from ((case.id, one_line(case.message)) for case in record.cases if case.failing and case.id not in explained)
    yield from _noticed(record)


def _noticed(record: Record) -> Iterator[tuple[str, str]]:
    """What nodes said of themselves that asks for a look even where everything passed; each node once."""
    worth: dict[str, dict[str, Any]] = {}
    for case in record.cases:
        for node, said in case.counters.items():
            damage = [each for each in said.get("moved", ()) if each.get("kind") == "error"]
            telling = {key: value for key, value in {**said, "moved": damage}.items() if value}
            if telling:
                worth.setdefault(node, telling)
    for node, said in worth.items():
        (line,) = words.counter_lines({node: said})
        yield node, line.removeprefix(f"{node}: ")


def _advice(record: Record) -> Iterator[tuple[str, str]]:
    """The likeliest cause of each kind of failure, with what to run."""
    likeliest = {case.advice[0].cause: case.advice[0] for case in record.cases if case.failing and case.advice}
    for each in list(likeliest.values())[:MOST_ADVICE]:
        yield each.metric, each.cause
        yield "  next", each.command


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


def _section(title: str, lines: list[tuple[str, str]], width: int) -> Iterator[RenderableType]:
    if not lines:
        return
    yield Text()
    yield Text(f"  {title}", style="bold")
    # Not a table: rich would squeeze the names to make room for the reasons, and the names are the point.
    widest = min(36, max(len(what) for what, _ in lines[:MOST_FINDINGS]))
    for what, why in lines[:MOST_FINDINGS]:
        # A reason may take a second line where the terminal is narrow, never a third.
        wrapped = wrap(why, max(20, width - widest - 6), max_lines=2, placeholder=" …") or [""]
        line = Text("    ", no_wrap=True, overflow="ellipsis")
        line.append(f"{what:{widest}}", "bold" if title == "findings" else "")
        yield line.append(f"  {wrapped[0]}")
        yield from (Text(" " * (widest + 6) + more) for more in wrapped[1:])
    if len(lines) > MOST_FINDINGS:
        yield Text(f"    … {len(lines) - MOST_FINDINGS} more in report.json")


def _footer(record: Record, files: Sequence[str]) -> Iterator[str]:
    if any(case.backend == "gloo" for case in record.cases):
        yield "gloo between CPU processes: certifies no GPU; bandwidth is shown, and judged only by your own thresholds"
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
        folder = os.path.commonpath([Path(file).parent for file in files])
        names = ", ".join(os.path.relpath(file, folder or ".") for file in files)
        yield f"written to {folder}: {names}" if folder else f"written: {names}"
