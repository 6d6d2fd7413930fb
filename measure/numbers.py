"""Numbers as logs print them; what is not a number, or is `nan` or `inf`, is `None` and never zero."""

from __future__ import annotations

import math
import re

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
NOT_SAID = frozenset({"n/a", "na", "nan", "-nan", "+nan", "inf", "-inf", "+inf", "none", "null", "-", ""})


def number(text: str | None) -> float | None:
    """A finite number, or None."""
    if text is None or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def is_number(text: str) -> bool:
    """Whether a cell is whole: a number, or one of the words printed where there is none."""
    return bool(NUMBER.fullmatch(text)) or text.lower() in NOT_SAID


def whole_number(text: str | None) -> int | None:
    """An integer, also where it was printed as `1e+06`; None where it is none."""
    value = number(text)
    return int(value) if value is not None and value == int(value) else None
