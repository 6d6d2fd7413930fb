"""What DCGM says in words, whatever the layout: status words, bandwidths, thermal violations, and what was executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from measure.model import Result

_STATUS: Final = {
    "pass": "pass", "passed": "pass", "fail": "fail", "failed": "fail", "skip": "skip", "skipped": "skip",
    "warn": "warn", "warning": "warn", "error": "error", "not run": "not_run", "notrun": "not_run",
    "healthy": "pass", "failure": "fail",
}  # fmt: skip
STATUS_WORDS: Final = r"Pass|Fail|Skip|Warn|Error|Not Run"
_BANDWIDTH = re.compile(
    r"GPU (\d+) (?:GPU to Host|Host to GPU|bidirectional) bandwidth:\s*([\d.]+) GB/s", re.IGNORECASE
)
_THERMAL = re.compile(r"[Tt]hermal violations totaling ([\d.]+) seconds?,? started at ([\d.]+) seconds")


def status(word: str) -> str:
    """One of pass, fail, skip, warn, error, not_run; an unknown word is an error, never a pass."""
    return _STATUS.get(word.strip().lower(), "error")


def bandwidths(texts: Iterable[str]) -> dict[str, list[float]]:
    """PCIe bandwidths in GB/s by GPU, in the order printed: GPU to host, host to GPU, both ways."""
    out: dict[str, list[float]] = {}
    for text in texts:
        for gpu, value in _BANDWIDTH.findall(text):
            out.setdefault(gpu, []).append(float(value))
    return out


def executed(results: Sequence[Result]) -> dict[str, int]:
    """How many tests there are and how many of them ran on any GPU: skipped is not passed."""
    ran: dict[tuple[str | None, str], bool] = {}
    for result in results:
        key = (result.category, result.test)
        ran[key] = ran.get(key, False) or result.status not in {"skip", "not_run"}
    return {"total": len(ran), "executed": sum(ran.values())}


def facts_of_messages(results: Sequence[Result]) -> dict[str, Any]:
    """Figures inside error texts: seconds of thermal violation."""
    for result in results:
        if result.error and (match := _THERMAL.search(result.error)):
            return {"thermal_violation_s": float(match.group(1)), "started_at_s": float(match.group(2))}
    return {}
