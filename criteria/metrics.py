"""Every metric a criterion may name: its unit, which way is better, and where a measurement has it.

One registry, so that an unknown name is an error before anything is launched. NVCRE's five names keep their spelling;
`busBandwidthGBps` is the out-of-place bus bandwidth at the largest size (NVCRE judges the largest over all sizes: that
is `peakBusBandwidthGBps` here). A repeat is one cycle and one failing repeat fails the run, so where cycles or
repeated rows are there, the worst of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from catalog import nearest
from criteria import training
from criteria.model import CriteriaError
from measure import Cell, Measurement

Reader = Callable[[Measurement, int | None], float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: `read(measurement, size)` gives its value, None where the measurement does not have it."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    read: Reader
    meaning: str
    by_size: bool = False
    """Whether it can be asked for at one message size."""
    bandwidth: bool = False
    """Whether a criterion on it judges the bandwidth of a communication case."""
    relevant: float = 0.05
    """Smallest relative effect that matters between peers."""


def finite(number: Any) -> float | None:
    """A number as float; None for what is absent, not a number, nan or infinite: never a value to judge by."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number) if math.isfinite(number) else None


def cells(measurement: Measurement) -> Iterator[tuple[int, str, Cell]]:
    """(size, place, cell) of every table row, `out_of_place` and `in_place`."""
    for table in measurement.tables:
        for row in table.rows:
            for place in ("out_of_place", "in_place"):
                cell = getattr(row, place)
                if cell is not None:
                    yield row.size, place, cell


def repeats(measurement: Measurement, quantity: str) -> dict[int, list[float | None]]:
    """Size → every out-of-place value of `quantity` (`busbw`, `algbw`, `time_us`): table rows and single cycles."""
    found: dict[int, list[float | None]] = {}
    for size, place, cell in cells(measurement):
        if place == "out_of_place":
            found.setdefault(size, []).append(finite(getattr(cell, quantity)))
    for cycle in measurement.cycles:
        for row in _rows(cycle):
            length = finite(row.get("size"))
            if length is not None and quantity in row:
                found.setdefault(int(length), []).append(finite(row[quantity]))
    return found


def _rows(cycle: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    rows = cycle.get("rows")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


def largest_size(measurement: Measurement) -> int | None:
    """The largest message size that was measured, bytes."""
    return max(repeats(measurement, "busbw"), default=None)


def match_size(sizes: Iterable[int], wanted: int, ranks: int) -> int | None:
    """The size a log has for the `wanted` one: nccl-tests rounds down to a multiple of ranks and alignment (16 B)."""
    slack = 16 * max(ranks, 1)
    close = [size for size in sizes if wanted - slack < size <= wanted]
    return max(close, default=None)


def _at(quantity: str, worst: Callable[[Iterable[float]], float], *, smallest: bool = False) -> Reader:
    def read(measurement: Measurement, size: int | None) -> float | None:
        by_size = repeats(measurement, quantity)
        sizes = [each for each in by_size if each > 0]
        if not sizes:
            return None
        usual = min(sizes) if smallest else max(sizes)
        chosen = usual if size is None else match_size(sizes, size, measurement.ranks or 1)
        return _worst(by_size[chosen], worst) if chosen is not None else None

    return read


def _worst(values: list[float | None], worst: Callable[[Iterable[float]], float]) -> float | None:
    """The worst of all repeats; None if one of them is no number, because it may have been the worst."""
    known = [value for value in values if value is not None]
    return worst(known) if known and len(known) == len(values) else None


def _peak(quantity: str) -> Reader:
    def read(measurement: Measurement, _size: int | None) -> float | None:
        means = [_worst(values, min) for values in repeats(measurement, quantity).values()]
        return max((mean for mean in means if mean is not None), default=None)

    return read


def _average(measurement: Measurement, _size: int | None) -> float | None:
    averages = [finite(table.avg_busbw) for table in measurement.tables]
    return _worst(averages, min)


def wrong_by_size(measurement: Measurement) -> dict[int, int]:
    """Size → wrong elements, over both places and all cycles."""
    found: dict[int, int] = {}
    for size, _place, cell in cells(measurement):
        if cell.wrong is not None:
            found[size] = max(found.get(size, 0), cell.wrong)
    for cycle in measurement.cycles:
        for row in _rows(cycle):
            length, inside = finite(row.get("size")), row.get("in_place")
            for half in (row, inside if isinstance(inside, Mapping) else {}):
                wrong = finite(half.get("wrong"))
                if length is not None and wrong is not None:
                    found[int(length)] = max(found.get(int(length), 0), int(wrong))
    return found


def _wrong(measurement: Measurement, size: int | None) -> float | None:
    by_size = wrong_by_size(measurement)
    if size is None:
        return float(sum(by_size.values())) if by_size else None
    chosen = match_size(by_size, size, measurement.ranks or 1)
    return float(by_size[chosen]) if chosen is not None else None


def _point_to_point(measurement: Measurement, _size: int | None) -> float | None:
    """Average of perftest's bandwidth at its largest size, Gb/s (perftest's MB is 10^6 or 2^20 by its own option)."""
    for table in measurement.tool_tables:
        if table.rows and "bw_avg_Gbps" in table.rows[-1]:
            return finite(table.rows[-1]["bw_avg_Gbps"])
    return None


def _own(name: str, worst: Callable[[Iterable[float]], float]) -> Reader:
    """A metric our own programs put under its name into the result line, for every rank or once for all."""

    def read(measurement: Measurement, _size: int | None) -> float | None:
        ranks = [finite(entry[name]) for entry in measurement.per_rank if name in entry]
        return _worst(ranks, worst) if ranks else finite(training.said(measurement, name))

    return read


def _training(reader: Callable[[Measurement], float | None]) -> Reader:
    return lambda measurement, _size: finite(reader(measurement))


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("busBandwidthGBps", "GB/s", "higher", _at("busbw", min),
               "out-of-place bus bandwidth at the largest size, worst repeat", by_size=True, bandwidth=True),
        Metric("peakBusBandwidthGBps", "GB/s", "higher", _peak("busbw"),
               "largest out-of-place bus bandwidth over all sizes", bandwidth=True),
        Metric("avgBusBandwidthGBps", "GB/s", "higher", _average,
               "nccl-tests' own average over all sizes", bandwidth=True),
        Metric("algBandwidthGBps", "GB/s", "higher", _at("algbw", min),
               "out-of-place algorithm bandwidth at the largest size, worst repeat", by_size=True, bandwidth=True),
        Metric("peakAlgBandwidthGBps", "GB/s", "higher", _peak("algbw"),
               "largest out-of-place algorithm bandwidth over all sizes", bandwidth=True),
        Metric("latencyUs", "us", "lower", _at("time_us", max, smallest=True),
               "time of the smallest size, worst repeat", by_size=True),
        Metric("wrong", "elements", "lower", _wrong, "result elements that were wrong", by_size=True),
        Metric("goodputRatio", "", "higher", _training(training.goodput_ratio),
               "share of wall time that trained"),
        Metric("avgTFLOPsPerGPU", "TFLOP/s", "higher", _training(training.average_tflops),
               "mean TFLOP/s of one GPU, warm-up left out", relevant=0.02),
        Metric("avgStepTimeSec", "s", "lower", _training(training.average_step_time),
               "mean step time, warm-up left out", relevant=0.02),
        Metric("tokensPerSec", "tokens/s", "higher", _training(training.average_tokens),
               "mean tokens a second as printed, warm-up left out", relevant=0.02),
        Metric("startupSec", "s", "lower", _training(training.startup_seconds),
               "from the start of training to the first step"),
        Metric("finalLoss", "", "lower", _training(training.final_loss), "loss of the last step"),
        Metric("gemmTFLOPs", "TFLOP/s", "higher", _own("gemmTFLOPs", min), "slowest GPU's GEMM", relevant=0.02),
        Metric("hbmBandwidthGBps", "GB/s", "higher", _own("hbmBandwidthGBps", min),
               "slowest GPU's memory bandwidth", relevant=0.02),
        Metric("pcieBandwidthGBps", "GB/s", "higher", _own("pcieBandwidthGBps", min),
               "slowest GPU's host link, the slower direction"),
        Metric("rdmaBandwidthGbps", "Gb/s", "higher", _point_to_point, "perftest between two NICs, largest size"),
        Metric("writeBandwidthGBps", "GB/s", "higher", _own("writeBandwidthGBps", min), "slowest rank's writes"),
        Metric("readBandwidthGBps", "GB/s", "higher", _own("readBandwidthGBps", min), "slowest rank's reads"),
    )
}  # fmt: skip


def metric(name: str) -> Metric:
    """The metric of that name. Raises `CriteriaError` with the nearest one."""
    found = METRICS.get(name)
    if found is None:
        guess = nearest(name, METRICS)
        raise CriteriaError(
            f"unknown metric {name!r}: expected one of {', '.join(METRICS)}"
            + (f"; did you mean {guess!r}?" if guess else "")
        )
    return found


def metrics(measurement: Measurement) -> dict[str, float]:
    """Name → value of every metric the measurement has."""
    values = {name: each.read(measurement, None) for name, each in METRICS.items()}
    return {name: value for name, value in values.items() if value is not None}
