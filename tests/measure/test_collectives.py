"""Which collective a table is of is read from its own columns where no line names the program, and never guessed."""

from __future__ import annotations

import pytest

from measure import read

HALF = "     time   algbw   busbw #wrong"
NEW = f"#       size         count      type   redop    root{HALF}{HALF}\n"
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
OLD_ROOT = (
    "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error\n"
)
OLD_BARE = "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
NUMBERS = "1000.0  1048.58  917.50"


def row(count: int, lead: str, first: str = "0", second: str = "0") -> str:
    return f"  1048576000  {count:12d}   float {lead}  {NUMBERS}  {first:>5}  {NUMBERS}  {second:>5}\n"


@pytest.mark.parametrize(
    ("table", "collective", "ranks"),
    [
        (NEW + row(262144000, "sum -1"), "all_reduce", None),
        (NEW + row(32768000, "sum -1"), "reduce_scatter", 8),
        (NEW + row(262144000, "sum 0"), "reduce", None),
        (NEW + row(262144000, "none 0"), "broadcast", None),
        (NEW + row(262144000, "none -1", "0", "N/A"), "sendrecv", None),
        (NEW + row(32768000, "none -1"), "all_gather", 8),
        (NEW + row(32768000, "none -1", "0", "N/A"), "alltoall", 8),
        (NEW + row(32768000, "none -1", "N/A", "N/A"), None, 8),
        (NEW + row(32768000, "none 0"), None, 8),
        (OLD + row(262144000, "sum", "N/A", "N/A"), "all_reduce", None),
        (OLD + row(32768000, "sum", "1e-06", "1e-06"), "reduce_scatter", 8),
        (OLD + row(32768000, "   ", "N/A", "N/A"), "alltoall", 8),
        (OLD + row(262144000, "   ", "0e+00", "N/A"), "sendrecv", None),
        (OLD_ROOT + row(262144000, "0", "N/A", "N/A"), "broadcast", None),
        (OLD_BARE + row(32768000, "", "N/A", "N/A"), "all_gather", 8),
        ("# Collective test starting: gather_perf\n" + NEW + row(32768000, "none 0"), "gather", 8),
        ("$ mpirun ./build/hypercube_perf -b 1G\n" + NEW + row(32768000, "none -1"), "hypercube", 8),
        (row(262144000, "sum -1"), "all_reduce", None),
        (row(262144000, "sum", "N/A", "N/A"), "all_reduce", None),
    ],
)
def test_collective_and_ranks(table: str, collective: str | None, ranks: int | None) -> None:
    found = read(table.encode())
    assert len(found.tables[0].rows) == 1
    assert (found.collective, found.ranks) == (collective, ranks)


@pytest.mark.parametrize(
    "word",
    ["1e-06", "0e+00", "N/A"],
)
def test_the_error_column_of_old_tables_is_no_count_of_errors(word: str) -> None:
    cell = read((OLD + row(262144000, "sum", word, word)).encode()).tables[0].rows[0].out_of_place
    assert cell is not None
    assert (cell.wrong, cell.error_raw) == (None, word)


def test_validation_off_is_said() -> None:
    assert read((NEW + row(262144000, "sum -1", "N/A", "N/A")).encode()).details["validation"] == 0
    assert "validation" not in read((NEW + row(262144000, "sum -1")).encode()).details
