"""Training on the simulated cluster: Megatron-LM's progress lines, one a step.

A step is the repeat of this program. Its figures are made to be read and judged, not to predict anything: throughput is
a fixed share of the accelerator's dense BF16 rate, and the loss falls as a loss does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from catalog import Accelerator
from cluster.simulated.chance import Chance
from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.timeline import STARTED_S

STEP_S = 5.0
"""Seconds of a healthy step."""
MODEL_FLOPS_SHARE = 0.5
"""Of the accelerator's dense BF16 rate: 508 of 989 TFLOP/s a device (Llama-3.1-70B, gpu-recipes a3ultra)."""
UNKNOWN_TFLOPS = 400.0
GLOBAL_BATCH = 128
FIRST_LOSS, LAST_LOSS, DECAY_STEPS = 10.8, 2.6, 25.0
CORRUPT_DRIFT = 0.004
"""Relative rise of the loss a step where a node computes wrong: it never falls."""


class Training:
    """A training of `maxSteps` steps."""

    def __init__(self, run: Situation, accelerator: Accelerator | None) -> None:
        self._run = run
        self.repeats = int(run.workload.options.get("maxSteps", 50))
        self.seconds = self.repeats * STEP_S + 1.0
        rate = accelerator.bf16_tflops if accelerator else 0.0
        self._tflops = rate * MODEL_FLOPS_SHARE or UNKNOWN_TFLOPS

    def play(self, exposed: Exposure, chance: Chance, noise: float) -> Iterator[tuple[float, str]]:
        """The progress lines, and the one that says that the training is done."""
        draw = chance.of("steps")
        yield STARTED_S, f"> initializing torch distributed with {self._run.workload.world_size} ranks ..."
        for index, factor in enumerate(exposed.factors):
            speed = factor * max(0.05, draw.gauss(1.0, noise))
            loss = _loss(index + 1, exposed) * draw.gauss(1.0, 0.002)
            yield STARTED_S + (index + 1) * STEP_S, self._line(index + 1, speed, loss)
        yield STARTED_S + self.seconds, "[after training is done]"

    def _line(self, step: int, speed: float, loss: float) -> str:
        """Megatron-LM's line of one iteration (training_log in megatron/training/training.py)."""
        broken = math.isnan(loss)
        return (
            f" iteration {step:8d}/{self.repeats:8d} | consumed samples: {step * GLOBAL_BATCH:12d} | "
            f"elapsed time per iteration (ms): {1e3 * STEP_S / speed:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): {self._tflops * speed:.1f} | learning rate: 1.200000E-05 | "
            f"global batch size: {GLOBAL_BATCH:5d} | lm loss: {'nan' if broken else f'{loss:.6E}'} | loss scale: 1.0 | "
            f"grad norm: {'nan' if broken else '1.250'} | number of skipped iterations:   0 | "
            f"number of nan iterations: {int(broken):3d} |"
        )


def _loss(step: int, exposed: Exposure) -> float:
    if any(step >= (fault.step or 1) for fault in exposed.effect("nan")):
        return math.nan
    if exposed.effect("corrupt"):
        return FIRST_LOSS * (1 + CORRUPT_DRIFT * step)
    return LAST_LOSS + (FIRST_LOSS - LAST_LOSS) * math.exp(-step / DECAY_STEPS)
