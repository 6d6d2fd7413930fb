"""The checks that are always on: whole, right, and over the network that was meant. No threshold turns them off.

Fail closed: what is missing, cut or not a number is `NoMeasurement`, never a pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from catalog import format_size
from criteria.final_line import proven
from criteria.metrics import cells, match_size, metrics, repeats, wrong_by_size
from criteria.model import Check, Conditions, Reason
from criteria.training import said
from measure import Measurement

ALWAYS = "always on"


def whole(measurement: Measurement | None, conditions: Conditions, *, measured_entry: bool) -> Iterator[Check]:
    """Whether there is a measurement of the asked kind, read to its end, by all ranks, with every size.

    `measured_entry`: the catalog's own entries must leave a measurement; a user's own program may print what it likes.
    """
    if measurement is None:
        yield _missing("measurement", "the run left nothing to read")
        return
    if not conditions.collective and measurement.format == "unknown" and not measured_entry:
        return
    if not measurement.complete:
        yield _missing("complete", _not_whole(measurement))
    if not conditions.collective:
        if measured_entry and not _says_something(measurement):
            yield _missing("measurement", "nothing was measured in the log")
        return
    yield from _collective(measurement, conditions)
    yield from _sizes(measurement, conditions)
    yield from _ranks(measurement, conditions)
    yield from proven(measurement, conditions)


def _not_whole(measurement: Measurement) -> str:
    count = measurement.details.get("result_lines", 1)
    if count > 1:
        return f"{count} result lines are in the log: it is not of one run alone"
    return f"the log stops before its end ({_extent(measurement)})"


def _says_something(measurement: Measurement) -> bool:
    """Whether the log holds any number or result that a criterion could be held against."""
    return bool(
        measurement.steps
        or measurement.results
        or measurement.tables
        or measurement.tool_tables
        or metrics(measurement)
    )


def _collective(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    seen = measurement.collective
    if seen is not None and seen != conditions.collective:
        yield _missing("collective", f"asked for {conditions.collective}, the log is of {seen}")


def _sizes(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    by_size = repeats(measurement, "busbw")
    if not by_size:
        yield _missing("sizes", f"no row of a {conditions.collective} table in the log")
        return
    absent = _absent(set(by_size), measurement, conditions)
    if absent:
        yield _missing("sizes", f"{len(absent)} of {len(conditions.sizes)} sizes are missing: {_listed(absent)}")
        return
    empty = [size for size, values in by_size.items() if size > 0 and None in values]
    if empty:
        yield _missing("sizes", f"the bus bandwidth at {_listed(empty)} is not a number")
        return
    expected = len(conditions.sizes) or None
    yield Check(
        "sizes",
        ok=True,
        text=f"all {len(by_size)} sizes measured",
        value=len(by_size),
        expected=expected,
        source=ALWAYS,
    )


def _absent(there: set[int], measurement: Measurement, conditions: Conditions) -> list[int]:
    """Asked sizes that the log does not have, by the program's own list of what it was asked for, or up to rounding."""
    asked, shown = said(measurement, "requested_sizes"), said(measurement, "sizes")
    if isinstance(asked, list) and isinstance(shown, list):
        pairs = zip(asked, shown, strict=False)
        done = {size for size, real in pairs if isinstance(size, int) and isinstance(real, int) and real in there}
        return [size for size in conditions.sizes if size not in done]
    rounded = there - set(conditions.sizes)
    return [
        size for size in conditions.sizes if size not in there and match_size(rounded, size, conditions.ranks) is None
    ]


def _ranks(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    said_ranks = [entry.get("rank") for entry in measurement.per_rank]
    expected = range(conditions.ranks)
    reported = {
        rank for rank in said_ranks if isinstance(rank, int) and not isinstance(rank, bool) and rank in expected
    }
    count = len(reported) if measurement.per_rank else measurement.ranks
    if count is None:
        yield _missing("ranks", f"the log does not say how many ranks ran, expected {conditions.ranks}")
    elif count == conditions.ranks < len(said_ranks):
        yield _missing("ranks", f"{len(said_ranks)} ranks are in the log, expected {conditions.ranks} and each once")
    elif count != conditions.ranks or (measurement.ranks or count) != conditions.ranks:
        absent = sorted(set(range(conditions.ranks)) - reported)[:8] if measurement.per_rank else []
        named = f"; missing {', '.join(map(str, absent))}" if absent else ""
        seen = min(count, measurement.ranks or count)
        yield _missing("ranks", f"{seen} of {conditions.ranks} ranks are in the log{named}", value=seen)
    else:
        yield Check("ranks", ok=True, text=f"all {count} ranks present", value=count, expected=count, source=ALWAYS)


def right(measurement: Measurement | None, conditions: Conditions) -> Iterator[Check]:
    """Whether every result element was checked and right (`#wrong`, out-of-bounds values, each rank's own count)."""
    if measurement is None:
        return
    by_size = wrong_by_size(measurement)
    bad = {size: count for size, count in by_size.items() if count > 0}
    bounds = sum(table.out_of_bounds or (table.out_of_bounds_status == "FAILED") for table in measurement.tables)
    ranks = [entry for entry in measurement.per_rank if _spoilt(entry.get("wrong"))]
    if bad or bounds or ranks:
        yield _corrupt(bad, bounds, [entry.get("rank") for entry in ranks])
        return
    compared = {size for size, _place, cell in cells(measurement) if _deviation(cell.error_raw) is not None}
    checked = compared | set(by_size)
    unchecked = [size for size in repeats(measurement, "busbw") if size not in checked and size > 0]
    if conditions.collective and unchecked:
        yield _missing("wrong", f"the results at {_listed(unchecked)} were not checked (#wrong is N/A)")
    elif checked:
        yield Check("wrong", ok=True, text="no result element is wrong", value=0, expected=0, source=ALWAYS)


def _spoilt(wrong: object) -> bool:
    """Whether a rank says that it got wrong elements; a count below 0 says nothing."""
    return bool(wrong) and not (isinstance(wrong, int | float) and wrong < 0)


def _deviation(text: str | None) -> float | None:
    """The largest deviation that the `error` column of old nccl-tests prints; None for N/A."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _corrupt(bad: dict[int, int], bounds: int, ranks: list[object]) -> Check:
    words = []
    if bad:
        where = ", ".join(f"{count} at {format_size(size)}" for size, count in sorted(bad.items())[:8])
        words.append(f"wrong result elements: {where}")
    if bounds:
        words.append(f"{bounds} out-of-bounds values")
    if ranks and len(ranks) <= 8:
        words.append("seen by rank " + ", ".join(map(str, ranks)))
    elif not words:
        words.append(f"wrong result elements on {len(ranks)} ranks")
    return Check(
        "wrong",
        ok=False,
        text="; ".join(words),
        value=float(sum(bad.values()) or bounds or len(ranks)),
        expected=0,
        source=ALWAYS,
        size=min(bad, default=None),
        reason=Reason.DATA_CORRUPTION,
    )


def _missing(metric: str, text: str, value: float | None = None) -> Check:
    return Check(metric, ok=False, text=text, value=value, source=ALWAYS, reason=Reason.NO_MEASUREMENT)


def _listed(sizes: list[int]) -> str:
    names = [format_size(size) for size in sorted(sizes)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _extent(measurement: Measurement) -> str:
    rows = sum(len(table.rows) for table in measurement.tables)
    if rows:
        return f"{rows} rows read"
    return f"{len(measurement.steps)} steps read" if measurement.steps else "nothing measured in it"
