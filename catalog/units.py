"""Sizes and durations as people write them, to bytes and seconds.

`16G` is 16 x 2^30 bytes, as nccl-tests reads it; bandwidth everywhere else is decimal (10^9 bytes/s). A duration is
written as Kubernetes and Go do (`1h30m`), or as a plain number of seconds.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from catalog.errors import CatalogError

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b?)?\s*$", re.IGNORECASE)
_SCALE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(value: Any) -> int:
    """Bytes of `16G`, `512M`, `8` or a whole number; suffixes are powers of two. Raises `CatalogError`."""
    number = _size_number(value)
    if number is None or number <= 0 or number != int(number):
        raise CatalogError(f"expected a message size above 0 such as 16G, 512M or 8, found {value!r}")
    return int(number)


def _size_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    match = _SIZE.match(value) if isinstance(value, str) else None
    return float(match[1]) * _SCALE[match[2].lower()] if match else None


def parse_duration(value: Any) -> float:
    """Seconds of `15m`, `1h30m`, `90s`, `500ms` or a plain number of seconds. Raises `CatalogError`."""
    seconds = _duration_seconds(value)
    if seconds is None or seconds <= 0 or not math.isfinite(seconds):
        raise CatalogError(f"expected a duration above 0 such as 90s, 15m or 1h30m, found {value!r}")
    return seconds


def _duration_seconds(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    text = value.strip().lower() if isinstance(value, str) else ""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    if not text or _PART.sub("", text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def format_size(size: int) -> str:
    """`16G` for 2^34: the largest suffix that leaves a whole number."""
    for suffix in ("T", "G", "M", "K"):
        scale = _SCALE[suffix.lower()]
        if size >= scale and size % scale == 0:
            return f"{size // scale}{suffix}"
    return str(size)


def sweep(begin: int, end: int, factor: int) -> tuple[int, ...]:
    """Message sizes in bytes that nccl-tests runs for `-b begin -e end -f factor`, smallest first."""
    if begin < 1 or end < begin or factor < 2:
        raise CatalogError(
            f"expected 1 <= minBytes <= maxBytes and stepFactor >= 2, found minBytes {begin}, maxBytes {end}, "
            f"stepFactor {factor}"
        )
    sizes = [begin]
    while sizes[-1] * factor <= end:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


Size = Annotated[int, BeforeValidator(parse_size)]
"""A message size in bytes; YAML may say `16G`."""
Seconds = Annotated[float, BeforeValidator(parse_duration)]
"""A duration in seconds; YAML may say `15m`."""
