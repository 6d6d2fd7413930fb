"""A training's loss must be a number at every step and, in a training that begins at the beginning, fall.

A loss that a line leaves out (every step of the interval skipped while the loss scale settles) is not said, and
nothing is made of it; one printed as `nan`, or a gradient norm of `nan` beside a perfect 0.0, is a failure even where
throughput is best of all.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from criteria.model import Check, Reason
from measure import Measurement, Step

FEW = 10
"""Steps below which a trend says nothing."""
EARLY = 100
"""A log that begins at a later step is a training resumed, whose loss may stand still over a few steps."""
_SPOILT = frozenset({"loss", "grad_norm"})


def sane_losses(measurement: Measurement) -> Iterator[Check]:
    """Loss finite at every step that prints one, and falling over a run that begins at the beginning."""
    steps = measurement.steps
    bad = [step for step in steps if _is_nan(step)]
    if bad:
        yield _not_finite(bad[0], len(bad), steps.index(bad[0]))
        return
    losses = [step.loss for step in steps if step.loss is not None]
    if not losses:
        return
    first_step = steps[0].step
    if len(losses) < FEW or (first_step is not None and first_step > EARLY):
        yield Check("loss", ok=True, text=f"loss finite over {len(losses)} steps", value=losses[-1], source="always on")
        return
    third = len(losses) // 3
    first, last = statistics.median(losses[:third]), statistics.median(losses[-third:])
    ok = last < first
    how = "fell" if ok else "did not fall"
    text = f"loss {how} over {len(losses)} steps: {first:.4g} to {last:.4g} (medians of thirds)"
    reason = Reason.THRESHOLD_VIOLATION
    yield Check("loss", ok=ok, text=text, value=last, expected=first, source="always on", reason=reason)


def _is_nan(step: Step) -> bool:
    named: Any = step.extra.get("nan") or ()
    iterations = step.extra.get("nan_iterations") or 0
    return bool(_SPOILT & set(named)) or (isinstance(iterations, int | float) and iterations > 0)


def _not_finite(step: Step, count: int, index: int) -> Check:
    where = f"step {step.step}" if step.step is not None else f"progress line {index + 1}"
    named: Any = step.extra.get("nan") or ()
    what = "loss" if "loss" in named or not named else "gradient norm"
    more = f", nor at {count - 1} more" if count > 1 else ""
    return Check(
        "loss",
        ok=False,
        text=f"the {what} at {where} is not a number{more}",
        source="always on",
        reason=Reason.DATA_CORRUPTION,
    )
