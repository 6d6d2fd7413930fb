"""A training's loss must be a number at every step, and lower at the end than at the start."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from criteria.model import Check, Reason
from measure import Measurement, Step

FEW = 10
"""Steps below which a trend says nothing."""


def sane_losses(measurement: Measurement) -> Iterator[Check]:
    """Loss finite at every step that should print one, and falling over the run."""
    steps = measurement.steps
    if not any(step.loss is not None or "loss_raw" in step.extra for step in steps):
        return
    bad = [step for step in steps if step.loss is None]
    if bad:
        yield _not_finite(bad[0], len(bad))
        return
    losses = [step.loss for step in steps if step.loss is not None]
    if len(losses) < FEW:
        yield Check("loss", ok=True, text=f"loss finite over {len(losses)} steps", value=losses[-1], source="always on")
        return
    third = len(losses) // 3
    first, last = statistics.median(losses[:third]), statistics.median(losses[-third:])
    ok = last < first
    how = "fell" if ok else "did not fall"
    text = f"loss {how} over {len(losses)} steps: {first:.4g} to {last:.4g} (medians of thirds)"
    yield Check("loss", ok=ok, text=text, value=last, expected=first, source="always on", reason=Reason.DATA_CORRUPTION)


def _not_finite(step: Step, count: int) -> Check:
    more = f" and {count - 1} more steps" if count > 1 else ""
    return Check(
        "loss",
        ok=False,
        text=f"the loss at step {step.step} is not a number{more}",
        source="always on",
        reason=Reason.DATA_CORRUPTION,
    )
