"""JSON that a killed program left unfinished, or that an author shortened: what is whole is kept, the rest is dropped.

`json` refuses such a text altogether; half a diagnostic still names the GPU that failed. The second value says whether
the text was valid, so that nobody takes a fragment for the whole.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN)|(.))""", re.DOTALL
)
_WORDS = {"true": True, "false": False, "null": None, "NaN": None}
_DEEPEST = 200


def parse(text: str) -> tuple[Any, bool]:
    """The value of a text and whether the text was valid JSON; containers that are not closed are kept as they are."""
    try:
        return json.loads(text, strict=False), True
    except (ValueError, RecursionError):
        return _salvage(text), False


def _salvage(text: str) -> Any:
    tree = _Tree()
    for match in _TOKEN.finditer(text):
        string, mark, word, _ = match.groups()
        if string is not None:
            tree.string(_string(string))
        elif word is not None:
            # A number at the very end may have lost digits.
            if match.end() < len(text):
                tree.put(_WORDS[word] if word in _WORDS else _value(word))
        elif mark and not tree.mark(mark):
            break
    return tree.root


class _Tree:
    """What was read so far, with the containers that are still open."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []

    def string(self, value: str) -> None:
        """A string is a key where an object waits for one."""
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is None:
            self._keys[-1] = value
        else:
            self.put(value)

    def put(self, value: Any) -> None:
        """A value goes into the innermost container; without key into an object it is lost."""
        if not self._open:
            self.root = value if self.root is None else self.root
        elif isinstance(top := self._open[-1], list):
            top.append(value)
        elif (key := self._keys[-1]) is not None:
            top[key] = value
            self._keys[-1] = None

    def mark(self, mark: str) -> bool:
        """A brace, bracket or comma; False where the document has ended, or nests too deep to be one."""
        if mark in "{[":
            made: dict[str, Any] | list[Any] = {} if mark == "{" else []
            self.put(made)
            self._open.append(made)
            self._keys.append(None)
            return len(self._open) < _DEEPEST
        if mark in "}]" and self._open:
            self._open.pop()
            self._keys.pop()
            return bool(self._open)
        if mark == "," and self._open:
            self._keys[-1] = None
        return True


def _value(word: str) -> float | int:
    """A number; leading zeros, which JSON forbids, are read as they were meant."""
    return int(word) if word.lstrip("-").isdigit() and len(word) < 100 else float(word)


def _string(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token[1:-1]


def as_dict(value: Any) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []
