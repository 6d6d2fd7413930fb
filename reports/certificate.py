"""The certificate: one page to hand over, as Markdown and as HTML.

It says what was tested, on which nodes, with which versions, against which thresholds, with which result, and, as
loudly, what was not tested and which faults would have passed unseen. The hash ties it to the report it was made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reports import page, words
from reports.page import Page, Section, Table
from reports.record import CaseRecord, Record
from reports.sensitivity import seen
from reports.text import fold, number, one_line, plural

MOST_ROWS = 40


def certificate(record: Record, digest: str) -> Page:
    """The page for a record; `digest` is the SHA-256 of the report.json that it was written to."""
    sections = (
        _result(record),
        _what(record),
        _tests(record),
        _findings(record),
        _not_tested(record),
        _faults(record),
        _versions(record),
        _identity(record, digest),
    )
    filled = tuple(section for section in sections if section.blocks)
    return Page("Cluster certificate", record.result, filled)


def certificate_md(record: Record, digest: str) -> str:
    """`certificate.md`."""
    return page.markdown(certificate(record, digest))


def certificate_html(record: Record, digest: str) -> str:
    """`certificate.html`."""
    return page.html(certificate(record, digest))


def _result(record: Record) -> Section:
    counts = Counter(case.verdict for case in record.cases)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no case ran"
    blocks = [f"{plural(len(record.cases), 'case')} on {plural(len(record.nodes), 'node')}: {said}."]
    if record.run_state not in {"finished", "running"}:
        blocks.append(f"The session was stopped early ({record.run_state}).")
    if record.cases and all(case.backend == "gloo" for case in record.cases if case.backend):
        blocks.append("All communication ran on CPUs (gloo): this page certifies no GPU.")
    if record.session.replay_of:
        blocks.append(f"Nothing was run: the stored logs of session {record.session.replay_of} were judged again.")
    if record.platform.cluster == "simulated":
        blocks.append("The cluster was simulated: this page certifies no hardware.")
    if record.because:
        blocks.append(f"Behind the result: {fold(record.because, 6)}.")
    return Section("Result", tuple(blocks))


def _what(record: Record) -> Section:
    if not record.nodes:
        return Section("Nodes", ())
    products = Counter(node.product or "no accelerator" for node in record.nodes)
    verdicts: dict[str, list[str]] = {}
    for node in record.nodes:
        verdicts.setdefault(node.verdict, []).append(node.name)
    rows = tuple((verdict, str(len(names)), fold(names, 12)) for verdict, names in verdicts.items())
    kinds = ", ".join(f"{count} × {product}" for product, count in products.items())
    return Section("Nodes", (f"{kinds}.", Table(("verdict", "nodes", "names"), rows, frozenset({"nodes"}))))


def _tests(record: Record) -> Section:
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in record.cases:
        groups.setdefault((case.entry, case.scale), []).append(case)
    rows = tuple(_test_row(entry, scale, cases) for (entry, scale), cases in list(groups.items())[:MOST_ROWS])
    headings = ("test", "scale", "result", "nodes", "measured", "expected", "floor", "source of the expectation")
    table = Table(headings, rows, frozenset({"nodes", "measured", "expected", "floor"}))
    return Section("Tests, thresholds and results", (table,) if rows else ())


def _test_row(entry: str, scale: str, cases: list[CaseRecord]) -> tuple[str, ...]:
    counts = Counter(case.verdict for case in cases)
    result = ", ".join(verdict if len(cases) == 1 else f"{count} {verdict}" for verdict, count in counts.items())
    figures = [words.deciding(case) for case in cases]
    unit = next((unit for value, unit in figures if value is not None), "")
    sources = dict.fromkeys(
        check.source for case in cases for check in case.criteria if check.source and check.value == case.value
    )
    return (
        entry,
        scale,
        result,
        words.extremes([float(len(case.nodes)) for case in cases if case.nodes]),
        f"{words.extremes([value for value, _ in figures if value is not None])} {unit}".strip(),
        words.extremes([case.expected for case in cases if case.expected is not None]),
        words.extremes([floor for case in cases if (floor := words.floor(case)) is not None]),
        fold(list(sources), 2),
    )


def _findings(record: Record) -> Section:
    return Section("Findings", _findings_table(record))


def _findings_table(record: Record) -> tuple[str | Table, ...]:
    rows = list(_finding_rows(record))
    if not rows:
        return ()
    table = Table(("what", "case", "why"), tuple(rows[:MOST_ROWS]))
    return (table, f"{len(rows) - MOST_ROWS} more are in report.json.") if len(rows) > MOST_ROWS else (table,)


def _finding_rows(record: Record) -> Iterator[tuple[str, str, str]]:
    for case in record.cases:
        found = case.isolation
        if found is None:
            if case.verdict in {"failed", "inconclusive"}:
                yield fold(case.nodes, 3), case.id, one_line(case.message)
            continue
        for suspect in found.suspects:
            yield suspect.node, case.id, words.suspect_line(suspect)
        for what, text in words.other_findings(found):
            yield what, case.id, text
        if found.certified_rest is not None:
            yield "certified", case.id, words.certified_line(found)


def _not_tested(record: Record) -> Section:
    rows = [(each.node, f"excluded: {each.reason}" + (" (waived)" if each.waived else "")) for each in record.excluded]
    untested = [node.name for node in record.nodes if node.verdict == "untested"]
    if untested:
        rows.append((fold(untested, 12), "not exercised by any case"))
    skipped: dict[str, list[str]] = {}
    for case in record.cases:
        if case.verdict in {"skipped", "error"}:
            skipped.setdefault(one_line(case.message, 200), []).append(case.id)
    rows += [(fold(ids, 6), reason or "skipped") for reason, ids in skipped.items()]
    table = Table(("what", "why"), tuple(rows[:MOST_ROWS]))
    return Section("Not tested", (table,) if rows else ("Every node of the target took part in a case that ran.",))


def _faults(record: Record) -> Section:
    rows = tuple(
        (each.component, each.size, each.probability, fold(list(each.tested_by), 3)) for each in seen(record.cases)
    )
    intro = (
        "Faults of each component that would have made a case fail, by size and by how often they show (95 % "
        "confidence). Smaller or rarer faults would have passed unseen."
    )
    headings = ("component", "faults that would have been seen", "if the fault", "tested by")
    return Section("What this session could see", (intro, Table(headings, rows)))


def _versions(record: Record) -> Section:
    known = record.versions
    named = [(name, getattr(known, name)) for name in ("suite", "kubernetes", "driver", "cuda", "nccl", "torch")]
    pairs = [*named, *known.other.items(), *known.images.items()]
    rows = page.rows([("platform", record.platform.name), ("cluster", record.platform.cluster), *pairs])
    return Section("Versions", (Table(("component", "version"), rows),) if rows else ())


def _identity(record: Record, digest: str) -> Section:
    session = record.session
    spent = record.budget
    used = [
        number(spent.used_wall_seconds, "s") if spent.used_wall_seconds else "",
        number(round(spent.used_node_seconds / 3600, 2), "node-hours") if spent.used_node_seconds else "",
    ]
    rows = page.rows(
        [
            ("session", session.id),
            ("started", session.started),
            ("ended", session.ended),
            ("used", ", ".join(text for text in used if text)),
            ("specification", session.spec_hash),
            ("command", " ".join(session.command)),
            ("report.json, SHA-256", digest),
        ]
    )
    return Section("Session", (Table(("", " "), rows),))
