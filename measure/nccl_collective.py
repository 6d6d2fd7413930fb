"""Which collective a table is of, where no line names the program: read from its columns, counts and root.

Rules from nccl-tests' sources: all_reduce and reduce print an operation; reduce, broadcast, gather and scatter a root;
all_gather, reduce_scatter, alltoall, gather and scatter print the count of one rank, so that size = count x type x n;
alltoall cannot be checked in place and prints N/A there.
"""

from __future__ import annotations

from collections.abc import Sequence

from measure.model import Row
from measure.nccl_rows import TYPE_BYTES, Header

COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoallv", "alltoall", "broadcast", "reduce", "sendrecv", "gather",
    "scatter", "hypercube",
)  # fmt: skip


def share(row: Row) -> int | None:
    """How many counts make the size: 1, or the number of ranks; None where the row does not say."""
    if not row.count or row.type not in TYPE_BYTES or not row.size:
        return None
    return row.size // (row.count * TYPE_BYTES[row.type])


def ranks(rows: Sequence[Row]) -> int | None:
    """The number of ranks that the counts of a per-rank collective prove (all rows must agree)."""
    shares = {value for row in rows if (value := share(row)) is not None}
    return shares.pop() if len(shares) == 1 and max(shares) > 1 else None


def infer(rows: Sequence[Row], columns: Header | None) -> str | None:
    """The collective, or None where the rows fit more than one."""
    sample = next((row for row in reversed(rows) if share(row) is not None), None)
    if sample is None:
        # Tables of before 2022 that print an operation: all_reduce, unless a row's count says otherwise.
        return "all_reduce" if not rows and columns and columns.lead == ("redop",) else None
    return _infer(sample, rows, columns)


def _infer(sample: Row, rows: Sequence[Row], columns: Header | None) -> str | None:
    split = (share(sample) or 1) > 1
    if sample.redop and sample.redop != "none":
        return _reducing(sample, split)
    if sample.root is not None and sample.root >= 0:
        return None if split else "broadcast"
    if not split:
        # With one rank every per-rank collective looks alike, and its bus bandwidth is zero.
        cell = sample.out_of_place or sample.in_place
        return "sendrecv" if cell and cell.busbw else None
    return _split(sample, rows, columns)


def _split(sample: Row, rows: Sequence[Row], columns: Header | None) -> str | None:
    """A collective of one rank's counts, without operation and root."""
    if columns and "redop" in columns.lead and sample.redop is None:
        return "alltoall"
    if columns and columns.lead == ():
        return "all_gather"
    if not any(row.out_of_place and row.out_of_place.wrong is not None for row in rows):
        # Without validation both print N/A everywhere.
        return None
    return "alltoall" if all(map(_unchecked_in_place, rows)) else "all_gather"


def _reducing(row: Row, split: bool) -> str:
    if row.root is not None and row.root >= 0:
        return "reduce"
    return "reduce_scatter" if split else "all_reduce"


def _unchecked_in_place(row: Row) -> bool:
    """Checked out of place, not in place."""
    if row.in_place is None or row.out_of_place is None:
        return False
    return row.in_place.wrong is None and row.out_of_place.wrong is not None
