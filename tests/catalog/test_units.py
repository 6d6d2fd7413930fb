"""Sizes and durations are read as people write them, and nothing else is."""

import pytest

from catalog import CatalogError, format_size, parse_duration, parse_size, sweep


@pytest.mark.parametrize(
    ("text", "size"),
    [("16G", 2**34), ("512M", 2**29), ("8", 8), (8, 8), ("1k", 1024), ("4GiB", 2**32), (" 2M ", 2**21), ("1.5K", 1536)],
)
def test_sizes_are_powers_of_two_as_nccl_tests_reads_them(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", -1, 0, True, None, "16X", 1.5, "0.1", float("nan"), float("inf"), [1]])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(CatalogError, match="expected a message size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900.0), ("1h30m", 5400.0), ("90s", 90.0), (90, 90.0), ("90", 90.0), ("500ms", 0.5), ("1d", 86400.0)],
)
def test_durations_are_written_as_kubernetes_writes_them(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "m", "-1s", 0, True, None, "1x", "1h-30m", "soon", float("nan"), float("inf"), []]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(CatalogError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(("size", "text"), [(2**34, "16G"), (8, "8"), (1536, "1536"), (2**20, "1M"), (2**41, "2T")])
def test_sizes_are_shown_with_the_largest_whole_suffix(size: int, text: str) -> None:
    assert format_size(size) == text
    assert parse_size(text) == size


def test_a_sweep_ends_at_the_last_size_that_fits() -> None:
    assert sweep(8, 64, 2) == (8, 16, 32, 64)
    assert sweep(8, 63, 2) == (8, 16, 32)
    assert sweep(8, 8, 2) == (8,)
    for bad in ((8, 4, 2), (0, 8, 2), (8, 16, 1)):
        with pytest.raises(CatalogError, match="minBytes"):
            sweep(*bad)
