"""Two strategies people use today, to compare with: halving by name with one confirmation, random pairs twice.

Both are written as their users run them: nodes in name order, no topology, no layers, a probe's word taken once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.isolation_drive import Cost
from bench.isolation_oracle import World
from isolate import Findings, Probe, Suspect


class _Runner:
    """Runs waves of disjoint groups and counts what they cost."""

    def __init__(self, world: World, lanes: int) -> None:
        self._world = world
        self._lanes = lanes
        self.cost = Cost()

    def wave(self, groups: Sequence[Sequence[str]]) -> list[bool]:
        """Whether each group fails."""
        failed = []
        for start in range(0, len(groups), self._lanes):
            self.cost.rounds += 1
            for group in groups[start : start + self._lanes]:
                nodes = tuple(sorted(group, key=self._world.rank.__getitem__))
                self.cost.jobs += 1
                self.cost.node_runs += len(nodes)
                failed.append(self._world.run(Probe(self.cost.jobs, nodes)).outcome == "failed")
        self.cost.searching = self.cost.jobs
        self.cost.all_rounds = self.cost.rounds
        return failed

    def end(self, named: Sequence[str]) -> Cost:
        """The cost with the named nodes in it."""
        suspects = tuple(Suspect(node, "node") for node in named)
        self.cost.findings = Findings("isolated" if named else "not-reproduced", self.cost.rounds, suspects=suspects)
        return self.cost


def halving(world: World, group: Sequence[str], lanes: int) -> Cost | None:
    """Both halves of every failing group, down to two nodes; each suspect once with any healthy node."""
    if world.first(group).outcome != "failed":
        return None
    runner = _Runner(world, lanes)
    suspects: list[str] = []
    healthy: list[str] = []
    failing = [sorted(group)]
    while failing:
        halves: list[list[str]] = []
        for each in failing:
            if len(each) <= 2:
                suspects += each
            else:
                halves += [each[: len(each) // 2], each[len(each) // 2 :]]
        failing = []
        for each, failed in zip(halves, runner.wave(halves), strict=True):
            if failed:
                failing.append(each)
            else:
                healthy += each
    if not healthy:
        return runner.end(suspects)
    pairs = [(node, healthy[index % len(healthy)]) for index, node in enumerate(suspects)]
    return runner.end([pair[0] for pair, failed in zip(pairs, runner.wave(pairs), strict=True) if failed])


def random_pairs(world: World, group: Sequence[str], lanes: int) -> Cost | None:
    """Random disjoint pairs, then every member of a failing pair with a node that passed."""
    if world.first(group).outcome != "failed":
        return None
    runner = _Runner(world, lanes)
    nodes = list(group)
    random.Random(world.seed).shuffle(nodes)
    pairs = [tuple(nodes[index : index + 2]) for index in range(0, len(nodes) - 1, 2)]
    if len(nodes) % 2:
        pairs.append((nodes[-1], nodes[0]))
    suspects: list[str] = []
    healthy: list[str] = []
    for pair, failed in zip(pairs, runner.wave(pairs), strict=True):
        (suspects if failed else healthy).extend(pair)
    suspects = list(dict.fromkeys(suspects))
    healthy = [node for node in healthy if node not in suspects]
    if not healthy:
        return runner.end(suspects)
    second = [(node, healthy[index % len(healthy)]) for index, node in enumerate(suspects)]
    return runner.end([pair[0] for pair, failed in zip(second, runner.wave(second), strict=True) if failed])
