"""The results of a diagnostic (DCGM): a failed test fails the node, and skipped is not passed.

A diagnostic's own verdict names hardware, so it is `HardwareFailureDetected`; one in which nothing ran at all is
inconclusive, because it proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from criteria.model import Check, Reason
from measure import Measurement, Result

BAD = frozenset({"fail", "error"})


def diagnosed(measurement: Measurement) -> Iterator[Check]:
    """One check for every test that failed, or one for all where none did."""
    results = measurement.results
    if not results:
        return
    bad = [result for result in results if result.status in BAD]
    if bad:
        yield from map(_failed, bad)
        return
    counts = Counter(result.status for result in results)
    words = f"{counts['pass']} passed" + "".join(
        f", {count} {status}" for status, count in sorted(counts.items()) if status != "pass"
    )
    ran = counts["pass"] + counts["warn"] > 0
    text = f"diagnostic: {words}" if ran else f"diagnostic: nothing ran ({words})"
    yield Check("diagnostic", ok=True if ran else None, text=text, value=counts["pass"], source="always on")


def _failed(result: Result) -> Check:
    gpu = f" on GPU {result.gpu}" if result.gpu is not None else ""
    host = f" of {result.host}" if result.host else ""
    why = f": {result.error}" if result.error else ""
    return Check(
        "diagnostic",
        ok=False,
        text=f"diagnostic {result.test}{gpu}{host} {result.status}{why}",
        expected="pass",
        source="always on",
        reason=Reason.HARDWARE_FAILURE_DETECTED,
    )
