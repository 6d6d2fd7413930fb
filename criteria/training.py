"""Training: step time, throughput, loss and goodput from a log's steps and its lifecycle.

Goodput is NVCRE's definition (NVIDIA cluster-readiness-engine, GoodputMeasurement):
`(t_w - t_lost - t_resume - t_reschedule - t_save) / (t_w - t_reschedule)`, 0 where that is negative; `t_w` is the wall
time of the training up to its end, `t_lost` work done since the last checkpoint before a restart, `t_resume` loading
and reaching the first step, `t_reschedule` waiting for nodes, `t_save` blocking saves. Unlike NVCRE, step time *and*
TFLOP/s leave the warm-up out: its steps compile and allocate. Start-up is a number of its own, because on a short run
it would drown everything else.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from criteria.model import Check, Reason
from measure import Measurement, Step

WARMUP_STEPS = 10
"""Steps left out of averages (NVCRE's default); at most half of what is there, so that short runs keep some."""
STALL_MULTIPLE = 3.0
STALL_FLOOR_S = 30.0


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Seconds of one training, from its start to its terminal state (frozen: a later reading changes nothing)."""

    wall_s: float
    lost_s: float = 0.0
    resume_s: float = 0.0
    reschedule_s: float = 0.0
    save_s: float = 0.0


def goodput(life: Lifecycle) -> float:
    """Share of the wall time that trained, 0 … 1 (formula above); 0 where nothing is left."""
    whole = life.wall_s - life.reschedule_s
    useful = life.wall_s - life.lost_s - life.resume_s - life.reschedule_s - life.save_s
    return max(0.0, useful / whole) if whole > 0 else 0.0


def goodput_ratio(measurement: Measurement) -> float | None:
    """Goodput of a log that says its wall time (`wall_s` and the other parts); None where it does not."""
    parts = {name: said(measurement, name) for name in ("wall_s", "lost_s", "resume_s", "reschedule_s", "save_s")}
    if not isinstance(parts["wall_s"], int | float):
        return None
    return goodput(Lifecycle(**{name: float(value) for name, value in parts.items() if isinstance(value, int | float)}))


def said(measurement: Measurement, key: str) -> Any:
    """What the result line of our own programs, or the reader of another format, says under `key`."""
    result = measurement.details.get("result")
    own = result.get(key) if isinstance(result, Mapping) else None
    return measurement.details.get(key) if own is None else own


def settled(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps without warm-up and without those the loss scaler skipped: they trained nothing."""
    useful = [step for step in steps if step.loss is not None or not step.extra.get("skipped")]
    return useful[min(WARMUP_STEPS, len(useful) // 2) :]


def _mean(measurement: Measurement, read: Callable[[Step], float | None]) -> float | None:
    values = [value for value in map(read, settled(measurement.steps)) if value is not None]
    return statistics.fmean(values) if values else None


def average_step_time(measurement: Measurement) -> float | None:
    """Mean seconds a step, warm-up left out."""
    return _mean(measurement, lambda step: step.time_s)


def average_tflops(measurement: Measurement) -> float | None:
    """Mean TFLOP/s of one GPU, warm-up left out."""
    return _mean(measurement, lambda step: step.tflops_per_gpu)


def average_tokens(measurement: Measurement) -> float | None:
    """Mean tokens a second, as the log counts them."""
    return _mean(measurement, lambda step: step.tokens_per_s)


def startup_seconds(measurement: Measurement) -> float | None:
    """Seconds from the start to the first step, where the log says (`startup_s`)."""
    value = said(measurement, "startup_s")
    return float(value) if isinstance(value, int | float) else None


def final_loss(measurement: Measurement) -> float | None:
    """Loss of the last step that printed one."""
    losses = [step.loss for step in measurement.steps if step.loss is not None]
    return losses[-1] if losses else None


def stalled_after(intervals_s: Sequence[float]) -> float | None:
    """Seconds without a new step after which a training counts as stalled; None until three intervals are known.

    NVCRE's multiple of the usual interval (`stallMultiplier` 3), by the median, so that a checkpoint or two do not
    count; at least `STALL_FLOOR_S`, because output arrives in bursts.
    """
    if len(intervals_s) < 3:
        return None
    return max(STALL_FLOOR_S, STALL_MULTIPLE * statistics.median(intervals_s))


def stalls(measurement: Measurement) -> Iterator[Check]:
    """Whether no step, warm-up left out, took as long as a stall: a log read afterwards shows it by its step times."""
    timed = [(step, step.time_s) for step in settled(measurement.steps) if step.time_s is not None]
    limit = stalled_after([seconds for _, seconds in timed])
    if limit is None:
        return
    longest, seconds = max(timed, key=lambda each: each[1])
    usual = statistics.median(seconds for _, seconds in timed)
    ok = seconds <= limit
    text = f"step {longest.step} took {seconds:.4g} s, usual {usual:.4g} s, limit {limit:.4g} s"
    yield Check(
        "stall",
        ok=ok,
        text=text if not ok else f"no stall: longest {text}",
        value=seconds,
        unit="s",
        expected=usual,
        floor=limit,
        source="always on",
        reason=Reason.STALLED,
    )
