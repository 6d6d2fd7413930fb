"""The same run measures the same whenever, in whatever order and in whatever process it is taken."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import Run
from tests.cluster.simulated.fabrics import cycles, fabric, names, run, workload

FAULTS: list[dict[str, Any]] = [
    {"kind": "intermittent", "node": "node-003", "probability": 0.5, "factor": 0.5},
    {"kind": "intermittent", "node": "node-006", "probability": 0.3, "factor": 0.4},
    {"kind": "node", "node": "node-009", "effect": "corrupt"},
    {"kind": "node", "node": "node-011", "effect": "crash"},
]
KEYS: dict[str, Any] = {"noise": 0.02, "seed": 11}
TINY = {"minBytes": "1M", "maxBytes": "1M"}
groups = st.sets(st.integers(0, 15), min_size=2, max_size=5).map(lambda numbers: names(sorted(numbers)))


def left(done: Run) -> tuple[Any, ...]:
    return done.state, done.log, done.exits, done.events


@settings(max_examples=40, deadline=None)
@given(st.lists(groups, min_size=1, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing_in_them(sets: list[tuple[str, ...]], shuffler: Any) -> None:
    works = [workload(group, options=TINY) for group in sets]
    once = fabric(faults=FAULTS, **KEYS)
    first = {work.nodes: left(run(once, work)) for work in works}
    shuffler.shuffle(works)
    again = fabric(faults=FAULTS, **KEYS)
    assert {work.nodes: left(run(again, work)) for work in works} == first


@settings(max_examples=25, deadline=None)
@given(groups, st.integers(0, 5))
def test_the_draws_of_a_group_depend_on_its_set_and_the_attempt(group: tuple[str, ...], attempt: int) -> None:
    def measured(nodes: Sequence[str], number: int, seed: int = 11) -> list[float] | None:
        done = run(fabric(faults=FAULTS[:2], noise=0.02, seed=seed), workload(nodes, attempt=number, options=TINY))
        return cycles(done)

    assert measured(group, attempt) == measured(tuple(reversed(group)), attempt)
    assert measured(group, attempt) != measured(group, attempt + 1)
    assert measured(group, attempt) != measured(group, attempt, seed=12)


def test_threads_change_nothing() -> None:
    works = [workload(names([2 * index, 2 * index + 1]), options=TINY) for index in range(8)]
    alone = fabric(faults=FAULTS, **KEYS)
    expected = [left(run(alone, work)) for work in works]
    together = fabric(faults=FAULTS, **KEYS)
    found: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda index=index: found.update({index: left(run(together, works[index]))}))
        for index in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[index] for index in range(8)] == expected


def test_another_process_draws_the_same() -> None:
    code = (
        "from tests.cluster.simulated.test_simulated_determinism import *\n"
        "print(cycles(run(fabric(faults=FAULTS, **KEYS), workload(names([2, 3, 4, 6])))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    here = cycles(run(fabric(faults=FAULTS, **KEYS), workload(names([2, 3, 4, 6]))))
    assert outputs == {f"{here}\n".encode()}


def test_a_run_starts_when_the_last_of_its_nodes_is_free() -> None:
    cluster = fabric(faults=[], **KEYS)
    first = run(cluster, workload(names([0, 1])))
    second = run(cluster, workload(names([2, 3, 4])))
    assert (first.started, second.started) == (0.0, 0.0)
    assert run(cluster, workload(names([1, 2]))).started == max(first.ended, second.ended)
    assert run(cluster, workload(names([5, 6]))).started == 0.0


def test_virtual_time_is_not_wall_time() -> None:
    before = time.monotonic()
    done = run(fabric(), workload(names(range(16)), options={"maxBytes": "16G", "numCycles": 100}))
    assert done.seconds > time.monotonic() - before


def test_noise_has_the_spread_that_the_file_says() -> None:
    work = workload(names([0, 1]), options={**TINY, "numCycles": 2000})
    healthy = cycles(run(fabric(), work))[0]
    values = [value / healthy - 1 for value in cycles(run(fabric(noise=0.05, seed=3), work))]
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    assert abs(mean) < 0.005
    assert 0.045 < spread < 0.055
