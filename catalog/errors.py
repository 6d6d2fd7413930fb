"""The one error of this room, and the guess at what a misspelt name was meant to be.

A wrong catalog, certification or simulation file is a user's mistake: the text must let its writer mend it without
opening our code, so it always says the file, the path inside it, what was expected, what was found and the nearest
known name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CatalogError(ValueError):
    """A file or value cannot be used: where, expected, found, remedy. Several problems are one line each."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most likely meant, letter case aside; None when nothing is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'maxBytes'?`, or nothing."""
    guess = nearest(name, known)
    return f"; did you mean {guess!r}?" if guess else ""


def listing(known: Iterable[str], limit: int = 12) -> str:
    """Known names for a message, cut where a list would bury the point."""
    names = sorted(known)
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
