"""A page as data, and its two forms: Markdown for a ticket, HTML for a printer.

Both are made from the same blocks, so that the certificate cannot say one thing here and another there. The HTML needs
no other file and no network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root { color-scheme: light; }
body { font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #1f2933; background: #fff;
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; padding-top: .6rem; border-top: 1px solid #d9dee3; }
p { margin: .35rem 0; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th { text-align: left; font-weight: 600; color: #52606d; border-bottom: 1px solid #9aa5b1; }
th, td { padding: .25rem .9rem .25rem 0; vertical-align: top; }
td { border-bottom: 1px solid #eef1f4; overflow-wrap: break-word; }
td:first-child { white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { display: inline-block; padding: .1rem .6rem; border: 2px solid; border-radius: .25rem; font-weight: 700; }
.PASSED { color: #1b6e4b; } .FAILED { color: #8c1c13; } .INCOMPLETE { color: #7a5a00; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } h2, tr { break-inside: avoid; } }
"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings; columns named in `numbers` are set flush right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs and tables under it."""

    title: str
    blocks: tuple[str | Table, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A title, one word of verdict, and sections."""

    title: str
    verdict: str
    sections: tuple[Section, ...]


def markdown(page: Page) -> str:
    """The page as GitHub's Markdown."""
    lines = [f"# {_md(page.title)}", "", f"**{page.verdict}**"]
    for section in page.sections:
        lines += ["", f"## {_md(section.title)}"]
        for block in section.blocks:
            lines += ["", *(_markdown_table(block) if isinstance(block, Table) else [_md(block)])]
    return "\n".join(lines) + "\n"


def html(page: Page) -> str:
    """The page as one HTML file."""
    return "\n".join(_html(page)) + "\n"


def _html(page: Page) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(page.title)}: {escape(page.verdict)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f'<h1>{escape(page.title)}</h1>\n<p class="verdict {escape(page.verdict)}">{escape(page.verdict)}</p>'
    for section in page.sections:
        yield f"<h2>{escape(section.title)}</h2>"
        for block in section.blocks:
            yield _html_table(block) if isinstance(block, Table) else f"<p>{escape(block)}</p>"
    yield "</body>\n</html>"


def _html_table(table: Table) -> str:
    classes = [' class="number"' if heading in table.numbers else "" for heading in table.headings]
    head = "".join(f"<th{kind}>{escape(text)}</th>" for kind, text in zip(classes, table.headings, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(classes, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _markdown_table(table: Table) -> Iterator[str]:
    yield "| " + " | ".join(map(_cell, table.headings)) + " |"
    yield "|" + "|".join(" ---: " if heading in table.numbers else " --- " for heading in table.headings) + "|"
    yield from ("| " + " | ".join(map(_cell, row)) + " |" for row in table.rows)


def _cell(text: str) -> str:
    return _md(text).replace("|", "\\|").replace("\n", " ")


def _md(text: str) -> str:
    """Text that no Markdown reader takes for markup: names carry `_` and `*`, messages `<`."""
    return "".join(f"\\{each}" if each in "\\`*_<>[]" else each for each in text)


def rows(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Pairs without the empty ones, as rows of a two-column table."""
    return tuple((name, value) for name, value in pairs if value)
