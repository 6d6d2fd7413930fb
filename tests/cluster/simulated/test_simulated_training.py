"""Training lines: read by the real reader, slow, broken and silent where a fault says so."""

from __future__ import annotations

from typing import Any

import pytest

import measure
from cluster import Run, RunState, Workload
from measure import Measurement
from tests.cluster.simulated.fabrics import fabric, names, run

NODES = names(range(4))


def trained(faults: list[dict[str, Any]], **changes: Any) -> tuple[Run, Measurement]:
    settled: dict[str, Any] = {"options": {"maxSteps": 20}, "stall_limit_s": 60.0, **changes}
    work = Workload(
        name="train",
        case="gpt-small-full-scale",
        entry="gpt-small",
        framework="torch",
        program="train.py",
        nodes=NODES,
        ranks_per_node=8,
        backend="nccl",
        traffic="ring",
        **settled,
    )
    done = run(fabric(faults=faults), work)
    return done, measure.read(done.log)


def node(effect: str, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": "node", "node": "node-002", "effect": effect, **more}]


def test_a_healthy_training_has_every_step_and_a_falling_loss() -> None:
    done, read = trained([])
    assert done.state is RunState.SUCCEEDED
    assert read.complete
    assert [step.step for step in read.steps] == list(range(1, 21))
    losses = [step.loss for step in read.steps]
    assert all(loss is not None for loss in losses)
    assert losses[-1] < losses[0]  # type: ignore[operator]
    assert read.steps[0].tflops_per_gpu == pytest.approx(989 * 0.5, rel=0.05)


@pytest.mark.parametrize(
    "fault",
    [
        node("slow", factor=0.5)[0],
        {"kind": "nic", "node": "node-002", "factor": 0.5},
        {"kind": "link", "between": ["node-001", "node-002"], "factor": 0.5},
    ],
)
def test_a_slow_part_makes_steps_longer(fault: dict[str, Any]) -> None:
    well, sick = trained([])[1].steps[-1], trained([fault])[1].steps[-1]
    assert well.time_s is not None
    assert sick.time_s == pytest.approx(2 * well.time_s, rel=1e-3)


def test_the_loss_is_nan_from_its_step_on() -> None:
    _, read = trained(node("nan", step=7))
    assert [step.step for step in read.steps if step.loss is None] == list(range(7, 21))


def test_a_node_that_computes_wrong_keeps_the_loss_from_falling() -> None:
    _, read = trained(node("corrupt"))
    assert read.steps[-1].loss > read.steps[0].loss  # type: ignore[operator]


def test_the_log_of_a_hang_stops_at_its_moment() -> None:
    done, read = trained(node("hang", at="60s"))
    assert done.state is RunState.STALLED
    assert not read.complete
    assert read.steps[-1].step == 8  # 20 s of start-up, 5 s a step
    assert done.ended == 120.0
