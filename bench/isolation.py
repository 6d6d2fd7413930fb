"""Prints the targets table of isolation: what it costs, what it finds, what it misses, next to what people do today.

    nice .venv/bin/python -m bench.isolation --trials 200 --markdown

A probe lasts one unit of time, so a round is a wave of what starts together. Counted apart, as the targets do: quiet
confirmation, certification, and the probes that name the part of a suspect (alone, layer, rail).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import exp, log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.isolation_baselines import halving, random_pairs
from bench.isolation_drive import Cost, isolate
from bench.isolation_rows import Row, Target, Truth, grid, kinds, odd, said
from isolate import Limits

STRATEGIES = ("planner", "halving", "pairs")


@dataclass
class Tally:
    """What the trials of a row told."""

    trials: int = 0
    exact: int = 0
    false: int = 0
    missed: int = 0
    faults: int = 0
    jobs: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    searching: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    all_rounds: list[int] = field(default_factory=list)
    node_runs: list[float] = field(default_factory=list)
    cpu: float = 0.0
    wrong: list[int] = field(default_factory=list)
    """Seeds whose findings are not exactly the truth."""


def run_row(row: Row, strategy: str, trials: int) -> Tally:
    """All trials of a row; seeds whose case passes (an intermittent fault that did not show) are skipped."""
    tally = Tally()
    seed = 0
    while tally.trials < trials and seed < 3 * trials:
        seed += 1
        trial = row.trial(seed)
        started = time.process_time()
        world = trial.world
        cost: Cost | None
        if strategy == "planner":
            cost = isolate(world, world.names, Limits(max_concurrent=row.lanes))
        else:
            baseline = halving if strategy == "halving" else random_pairs
            cost = baseline(world, world.names, row.lanes)
        used = time.process_time() - started
        if cost is None and row.k:
            continue
        count(tally, row, cost or Cost(), trial.truth, seed, baseline=strategy != "planner")
        tally.cpu = max(tally.cpu, used)
    return tally


def count(tally: Tally, row: Row, cost: Cost, truth: Truth, seed: int, *, baseline: bool) -> None:
    """Add one trial; a baseline, which knows no layers, need only name the right nodes."""
    tally.trials += 1
    told = said(cost.findings) if cost.findings else truth
    if told == truth or (baseline and names_alike(told, truth)):
        tally.exact += 1
    else:
        tally.wrong.append(seed)
    named = nodes_of(told)
    real = nodes_of(truth)
    tally.false += len(named - real)
    causes = (*truth["links"], *truth["domains"], *(each for each in truth["other"]))
    found = (*told["links"], *told["domains"], *told["other"])
    tally.missed += len(real - named) + sum(cause not in found for cause in causes)
    tally.faults += len(real) + len(causes)
    tally.jobs.append(cost.jobs)
    tally.counted.append(cost.jobs - cost.apart)
    tally.searching.append(cost.searching)
    tally.rounds.append(cost.rounds)
    tally.all_rounds.append(cost.all_rounds)
    tally.node_runs.append(cost.node_runs / row.nodes)


def names_alike(told: Truth, truth: Truth) -> bool:
    layerless = {"suspects", "rails"}
    return nodes_of(told) == nodes_of(truth) and all(told[key] == truth[key] for key in truth if key not in layerless)


def nodes_of(truth: Truth) -> set[str]:
    return {str(suspect[0]) for suspect in truth["suspects"] if isinstance(suspect, tuple)}


def misses(row: Row, tally: Tally) -> list[str]:
    """The targets of the row that were not met, in words; rounds, jobs and node-runs by their worst trial."""
    target: Target = row.target
    told = []
    limits = (
        ("rounds", target.rounds, tally.rounds),
        ("jobs", target.jobs, tally.counted),
        ("jobs", target.searching, tally.searching),
        ("node-runs", target.node_runs, tally.node_runs),
    )
    for word, bound, values in limits:
        over = sum(value > bound + 1e-9 for value in values) if bound is not None else 0
        if over:
            told.append(f"{word} {max(values):.4g} > {bound:.4g} in {over}/{len(values)}")
    if target.mean_rounds is not None and mean(tally.rounds) > target.mean_rounds:
        told.append(f"mean rounds {mean(tally.rounds):.1f} > {target.mean_rounds:g}")
    if tally.exact < target.exact * tally.trials:
        told.append(f"exact {tally.exact}/{tally.trials}")
    if tally.faults and 1 - tally.missed / tally.faults < target.recall:
        told.append(f"recall {1 - tally.missed / tally.faults:.1%}")
    if tally.false > target.false * tally.trials:
        told.append(f"{tally.false} false")
    return told


def bound(wrong: int, trials: int) -> float:
    """Upper 95 % bound of a rate of which `wrong` of `trials` were seen (Clopper-Pearson, by bisection)."""
    if wrong >= trials:
        return 1.0
    low, high = wrong / trials, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        at_most = sum(
            exp(_log_choose(trials, i) + i * log(middle) + (trials - i) * log(1 - middle)) for i in range(wrong + 1)
        )
        low, high = (middle, high) if at_most > 0.05 else (low, middle)
    return high


def _log_choose(total: int, some: int) -> float:
    return sum(log(total - i) - log(i + 1) for i in range(some))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


HEAD = (
    "fault", "N", "k", "lanes", "strategy", "jobs", "jobs/bound", "rounds mean/max", "all rounds", "node-runs/N",
    "exact", "wrong ≤ (95 %)", "false/run", "missed", "CPU s", "target",
)  # fmt: skip


def line(row: Row, strategy: str, tally: Tally) -> tuple[str, ...]:
    """A line of the table."""
    over = mean(tally.searching) / row.bits if row.bits else 0.0
    verdict = ""
    if strategy == "planner":
        missed = misses(row, tally)
        verdict = "missed: " + "; ".join(missed) if missed else "met"
    return (
        row.name, str(row.nodes), str(row.k), str(row.lanes), strategy,
        f"{mean(tally.jobs):.1f}", f"{over:.2f}" if over else "–",
        f"{mean(tally.rounds):.1f} / {max(tally.rounds, default=0)}", f"{mean(tally.all_rounds):.1f}",
        f"{mean(tally.node_runs):.2f}", f"{tally.exact}/{tally.trials}",
        f"{bound(tally.trials - tally.exact, tally.trials):.1%}" if tally.trials else "–",
        f"{tally.false / max(1, tally.trials):.2f}", f"{tally.missed}/{tally.faults}", f"{tally.cpu:.2f}", verdict,
    )  # fmt: skip


def table(lines: Iterator[tuple[str, ...]], *, markdown: bool) -> Iterator[str]:
    """Text of the table, line by line as the rows end."""
    widths = (22, 5, 2, 5, 9, 7, 10, 15, 10, 11, 9, 14, 9, 10, 5, 0)
    if markdown:
        yield "| " + " | ".join(HEAD) + " |"
        yield "|" + "---|" * len(HEAD)
        for each in lines:
            yield "| " + " | ".join(each) + " |"
    else:
        for each in chain((HEAD,), lines):
            yield "  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows and print the table; returns the number of rows that miss a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="placements a row (the docs' table: 200)")
    parser.add_argument("--rows", default="", help="only rows whose fault's name contains this")
    parser.add_argument("--nodes", type=int, default=0, help="only rows of this size")
    parser.add_argument("--lanes", type=int, default=0, help="only rows with so many lanes")
    parser.add_argument("--baselines", action="store_true", help="the two baselines as well, on node and flaky rows")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--seeds", action="store_true", help="print the seeds of trials that were not exact")
    options = parser.parse_args(arguments)
    rows = [
        row
        for row in (*grid(), *odd(), *kinds())
        if options.rows in row.name and options.nodes in (0, row.nodes) and options.lanes in (0, row.lanes)
    ]
    work = [
        (row, name) for row in rows for name in STRATEGIES if name == "planner" or (options.baselines and compares(row))
    ]
    missed = 0

    def lines() -> Iterator[tuple[str, ...]]:
        nonlocal missed
        for row, name in work:
            tally = run_row(row, name, options.trials)
            missed += name == "planner" and bool(misses(row, tally))
            if options.seeds and tally.wrong and name == "planner":
                print(f"  not exact: {row.name} N={row.nodes} k={row.k} lanes={row.lanes}: seeds {tally.wrong[:12]}")
            yield line(row, name, tally)

    for text in table(lines(), markdown=options.markdown):
        print(text, flush=True)
    print(f"\n{len(rows)} rows, {missed} with a missed target, {options.trials} trials each")
    return 0


def compares(row: Row) -> bool:
    """Rows on which the baselines are worth a line: all but the grid's odd lanes."""
    return bool(row.k) and (row.name != "node" or row.lanes == 16)


if __name__ == "__main__":
    sys.exit(main())
