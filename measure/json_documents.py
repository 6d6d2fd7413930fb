"""JSON documents inside a log: nccl-tests `-J`, `dcgmi … -j`, multi-node diagnostics; whole, cut, or behind other text.

A document begins with a line that begins with `{`; lines that cannot belong to it go to the other readers. What kind it
is, its keys say. The environment that nccl-tests writes into its file is never looked at: it holds secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from measure.dcgm_json import take as take_dcgm
from measure.draft import FACT, PASS, Draft
from measure.lenient_json import parse
from measure.lines import Line
from measure.nccl_json import take as take_nccl

KINDS: Final[tuple[Callable[[dict[str, Any], bool, Draft], bool], ...]] = (take_nccl, take_dcgm)
"""Each takes a document if it knows its keys, and says whether it did."""
_LONGEST: Final = 1 << 25
_STRANGERS: Final = 50
"""Lines of others after which a document that was not closed counts as cut."""
_STARTS: Final = '{}[]",0123456789-tfn'


class JsonDocuments:
    """Reader of JSON documents of known kinds."""

    marks = ("{",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._parts: list[str] = []
        self._size = 0
        self._depth = 0
        self._strangers = 0

    def feed(self, line: Line) -> int:
        """Take a line."""
        text = line.body.strip()
        if not self._parts:
            if '"DCGM' in text and not text.startswith("{"):
                text = text[max(text.rfind("{", 0, text.index('"DCGM')), 0) :]
            # A Python dict begins with a single quote: HF Trainer's, not JSON.
            if not text.startswith("{") or text.startswith("{'"):
                return PASS
            return self._begin(text)
        if text and text[0] not in _STARTS:
            self._strangers += 1
            if self._strangers > _STRANGERS:
                self._close()
            return PASS
        self._strangers = 0
        return self._add(text)

    def _begin(self, text: str) -> int:
        self._depth = 0
        if _depth(text) <= 0:
            # A whole document in one line: most are records of some logger, which the other readers may look at.
            document, whole = parse(text)
            return FACT if isinstance(document, dict) and self._take(document, whole) else PASS
        return self._add(text)

    def _add(self, text: str) -> int:
        self._parts.append(text)
        self._size += len(text)
        self._depth += _depth(text)
        self._draft.hold("json", waiting=True)
        if self._depth <= 0 or self._size > _LONGEST:
            self._close()
        return FACT

    def _close(self) -> None:
        document, whole = parse("\n".join(self._parts))
        self._parts, self._size, self._depth, self._strangers = [], 0, 0, 0
        self._draft.hold("json", waiting=False)
        if isinstance(document, dict):
            self._take(document, whole)

    def _take(self, document: dict[str, Any], whole: bool) -> bool:
        taken = any(take(document, whole, self._draft) for take in KINDS)
        self._draft.closed = self._draft.closed or (taken and whole)
        if taken and not whole:
            self._draft.cut("the JSON document is cut or damaged")
        return taken

    def finish(self) -> None:
        """A document that is still open was cut."""
        if self._parts:
            self._close()


def _depth(text: str) -> int:
    """By how many levels a line opens more than it closes; braces inside strings do not count."""
    if '"' in text:
        pieces = text.replace("\\\\", "").replace('\\"', "").split('"')
        text = "".join(pieces[::2])
    return text.count("{") + text.count("[") - text.count("}") - text.count("]")
