"""Names of printed columns with their units, for tools whose tables carry the unit in the header.

`Bandwidth (MB/s)` is `bw_MBps`, `BW peak[Gb/sec]` is `bw_peak_Gbps`, `Avg Latency(us)` is `avg_us`: whoever reads the
JSON sees whether a larger number is better, and MB/s is never taken for Gb/s.
"""

from __future__ import annotations

import re
from typing import Any, Final

from measure.numbers import number, whole_number

_UNIT: Final = re.compile(
    r"\s*[\[(]?\s*\b(MB/s(?:ec)?|GB/s(?:ec)?|Gb/s(?:ec)?|MiB/s(?:ec)?|usec|us|Mpps|ms)\b\s*[\])]?"
)
_PERCENT: Final = re.compile(r"\s*[\[(]%[\])]")
_BRACKETED: Final = re.compile(r"#\w+|\d[\d.]*% percentile\[\w+\]|[A-Za-z]\w*(?: [a-z]\w*)?\[[^\]]+\]|tps average")
_SHORT: Final = {"usec": "us", "Mpps": "", "ms": "ms", "us": "us"}
_FIXED: Final = {
    "size": "size", "#bytes": "size", "bytes": "size", "#iterations": "iterations", "iterations": "iterations",
    "messages/s": "messages_per_s", "validation": "validation", "count": "count",
}  # fmt: skip
_PERCENTILE: Final = re.compile(r"^(?:p(\d+(?:\.\d+)?)\b.*|(\d+(?:\.\d+)?)% percentile.*)$", re.IGNORECASE)


def split(header: str) -> list[str]:
    """The column titles of a header line: they stand at least two blanks (or a tab) apart."""
    return [title for title in re.split(r"\s{2,}|\t+", header.strip().removeprefix("# ").strip()) if title]


def bracketed(header: str) -> list[str]:
    """The titles of a header whose units stand in brackets, also where one blank separates two of them."""
    return _BRACKETED.findall(header)


def unit(title: str) -> str | None:
    """The unit in a title, as printed."""
    match = _UNIT.search(title)
    return match.group(1) if match else None


def name(title: str) -> str:
    """The key of a column."""
    if fixed := _FIXED.get(title.lower()):
        return fixed
    printed = unit(title)
    suffix = "" if printed is None else _SHORT.get(printed, re.sub(r"/s(?:ec)?$", "ps", printed))
    words = _UNIT.sub(" ", title).strip().lower()
    if _PERCENT.search(title):
        suffix, words = "percent", _PERCENT.sub("", title).strip().lower()
    if percentile := _PERCENTILE.match(words):
        words = "p" + (percentile.group(1) or percentile.group(2)).replace(".", "_")
    elif printed == "Mpps":
        return "mpps"
    words = words.replace("average", "avg").replace("bandwidth", "bw")
    parts = [part for part in re.split(r"[^\w]+", words) if part]
    if len(parts) > 1 and "latency" in parts:
        parts.remove("latency")
    if not parts and suffix:
        parts = ["bw"]
    return "_".join([*parts, suffix]) if suffix else "_".join(parts)


def values(keys: list[str], texts: list[str]) -> dict[str, Any] | None:
    """A row under its keys; None where it is not whole. Sizes and counts are integers, `Pass` stays a word."""
    if len(keys) != len(texts):
        return None
    out: dict[str, Any] = {}
    for key, text in zip(keys, texts, strict=True):
        if key in {"size", "iterations", "count"}:
            out[key] = whole_number(text)
            if out[key] is None:
                return None
        elif key == "validation":
            if text not in {"Pass", "Fail"}:
                return None
            out[key] = text
        else:
            out[key] = number(text)
            if out[key] is None and text.lower() not in {"nan", "inf", "-nan", "n/a"}:
                return None
    return out
