"""The rows of the targets table: which faults are placed where, what counts as exact, and what must be met."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb, log2

from bench.isolation_oracle import Fault, World, cluster
from isolate import Findings

Truth = dict[str, frozenset[object]]


@dataclass(frozen=True)
class Trial:
    """One placement: a world and what the findings must say."""

    world: World
    truth: Truth


@dataclass(frozen=True)
class Target:
    """Upper bounds of what is counted; None = no bound."""

    rounds: float | None = None
    jobs: float | None = None
    """All jobs but naming, quiet confirmation and certification."""
    searching: float | None = None
    """Jobs without pins and confirmation as well."""
    node_runs: float | None = None
    """Node-runs / N."""
    mean_rounds: float | None = None
    """Of what comes by chance the mean counts; the worst trial is in the table."""
    exact: float = 1.0
    recall: float = 1.0
    false: float = 0.0


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    nodes: int
    k: int
    lanes: int
    place: Callable[[int, int, random.Random], Trial]
    target: Target

    @property
    def bits(self) -> float:
        """log2 C(N, k): what any strategy must learn."""
        return log2(comb(self.nodes, self.k)) if self.k else 0.0

    def trial(self, seed: int) -> Trial:
        """The placement of a seed."""
        return self.place(self.nodes, self.k, random.Random(f"{self.name}/{self.nodes}/{self.k}/{seed}"))


def truth(
    suspects: dict[str, str] | None = None,
    rails: dict[str, int] | None = None,
    **others: frozenset[object],
) -> Truth:
    """What must be said: suspects with layers, rails, links, domains; all else must be absent."""
    named: Truth = {
        "suspects": frozenset((suspects or {}).items()),
        "rails": frozenset((rails or {}).items()),
        "links": frozenset(),
        "domains": frozenset(),
        "other": frozenset(),
    }
    return {**named, **others}


def said(findings: Findings) -> Truth:
    """What the findings say, in the same words."""
    other: set[object] = set()
    if findings.scale:
        other.add(("scale", findings.scale.smallest_failing))
    if findings.systemic:
        other.add("systemic")
    if findings.transient:
        other.add("transient")
    other.update(("set", group) for group in findings.sets)
    other.update(("lost", node) for node in findings.lost)
    if findings.limit:
        other.add("limit")
    return {
        "suspects": frozenset((suspect.node, suspect.layer) for suspect in findings.suspects),
        "rails": frozenset((suspect.node, suspect.rail) for suspect in findings.suspects if suspect.rail is not None),
        "links": frozenset(link.between for link in findings.links),
        "domains": frozenset(domain.name for domain in findings.domains),
        "other": frozenset(other),
    }


def seed_of(rng: random.Random) -> int:
    return rng.randrange(1 << 30)


def node_faults(kind: str = "node", **more: object) -> Callable[[int, int, random.Random], Trial]:
    """So many nodes at fault, all alike."""

    def place(nodes: int, k: int, rng: random.Random) -> Trial:
        names, topology = cluster(nodes, rack=8, block=64)
        bad = rng.sample(names, k)
        faults = tuple(Fault(kind, node, **more) for node in bad)  # type: ignore[arg-type]
        layers = dict.fromkeys(bad, "node")
        return Trial(World(names, topology, faults, seed=seed_of(rng)), truth(layers))

    return place


def nic(nodes: int, k: int, rng: random.Random) -> Trial:
    names, topology = cluster(nodes, rack=8, block=64)
    bad = {node: rng.randrange(8) for node in rng.sample(names, k)}
    faults = tuple(Fault("nic", node, 0.4, rail) for node, rail in bad.items())
    world = World(names, topology, faults, seed=seed_of(rng), rails=8)
    return Trial(world, truth(dict.fromkeys(bad, "fabric"), bad))


def racks(nodes: int, rng: random.Random, faults: tuple[Fault, ...], *, switch: bool = True) -> World:
    """NVL72-like: NVLink domains of 18 nodes, each a rack."""
    names, topology = cluster(nodes, rack=18, nvlink=18)
    return World(names, topology, faults, seed=seed_of(rng), rails=4, switch=switch)


def nvlink(switch: bool) -> Callable[[int, int, random.Random], Trial]:
    def place(nodes: int, k: int, rng: random.Random) -> Trial:
        names, _ = cluster(nodes)
        bad = rng.sample(names[: nodes // 18 * 18], k)
        world = racks(nodes, rng, tuple(Fault("nvlink", node, 0.3) for node in bad), switch=switch)
        return Trial(world, truth(dict.fromkeys(bad, "scale-up")))

    return place


def nic_in_racks(nodes: int, k: int, rng: random.Random) -> Trial:
    names, _ = cluster(nodes)
    bad = {node: rng.randrange(4) for node in rng.sample(names, k)}
    world = racks(nodes, rng, tuple(Fault("nic", node, 0.4, rail) for node, rail in bad.items()))
    return Trial(world, truth(dict.fromkeys(bad, "fabric"), bad))


def nic_and_nvlink(nodes: int, k: int, rng: random.Random) -> Trial:
    del k
    names, _ = cluster(nodes)
    one, other = rng.sample(names[: nodes // 18 * 18], 2)
    rail = rng.randrange(4)
    world = racks(nodes, rng, (Fault("nic", one, 0.4, rail), Fault("nvlink", other, 0.3)))
    return Trial(world, truth({one: "fabric", other: "scale-up"}, {one: rail}))


def link(traffic: str) -> Callable[[int, int, random.Random], Trial]:
    """One pair of nodes on an edge that the traffic uses."""

    def place(nodes: int, k: int, rng: random.Random) -> Trial:
        del k
        names, topology = cluster(nodes, rack=8, block=64)
        if traffic == "ring":
            at = rng.randrange(nodes)
            ends = (names[at], names[(at + 1) % nodes])
        else:
            one, other = rng.sample(names, 2)
            ends = (one, other)
        ends = (min(ends), max(ends))
        world = World(names, topology, (Fault("link", between=ends, factor=0.3),), seed=seed_of(rng))
        world.traffic = traffic  # type: ignore[assignment]
        return Trial(world, truth(links=frozenset({ends})))

    return place


def leaf_link(traffic: str) -> Callable[[int, int, random.Random], Trial]:
    def place(nodes: int, k: int, rng: random.Random) -> Trial:
        del k
        names, topology = cluster(nodes, rack=8)
        leaves = -(-nodes // 8)
        one = rng.randrange(leaves)
        other = (one + 1) % leaves if traffic == "ring" else rng.choice([each for each in range(leaves) if each != one])
        ends = (f"rack-{one}", f"rack-{other}")
        ends = (min(ends), max(ends))
        world = World(names, topology, (Fault("boundary", between=ends, factor=0.4),), seed=seed_of(rng))
        world.traffic = traffic  # type: ignore[assignment]
        return Trial(world, truth(links=frozenset({ends})))

    return place


def uplink(traffic: str) -> Callable[[int, int, random.Random], Trial]:
    def place(nodes: int, k: int, rng: random.Random) -> Trial:
        del k
        names, topology = cluster(nodes, rack=8)
        leaves = -(-nodes // 8)
        bad = rng.randrange(leaves)
        faults = tuple(
            Fault("boundary", between=(f"rack-{bad}", f"rack-{other}"), factor=0.4)
            for other in range(leaves)
            if other != bad
        )
        world = World(names, topology, faults, seed=seed_of(rng))
        world.traffic = traffic  # type: ignore[assignment]
        return Trial(world, truth(domains=frozenset({f"rack-{bad}"})))

    return place


def hard_and_link(nodes: int, k: int, rng: random.Random) -> Trial:
    """One bad node and one bad pair apart from it, all-pairs traffic."""
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    bad, one, other = rng.sample(names, 3)
    ends = (min(one, other), max(one, other))
    faults = (Fault("node", bad), Fault("link", between=ends, factor=0.3))
    world = World(names, topology, faults, seed=seed_of(rng), traffic="all-pairs")
    return Trial(world, truth({bad: "node"}, links=frozenset({ends})))


def size(nodes: int, k: int, rng: random.Random) -> Trial:
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    least = rng.randint(3, nodes)
    world = World(names, topology, (Fault("scale", nodes=least),), seed=seed_of(rng))
    return Trial(world, truth(other=frozenset({("scale", least)})))


def transient(nodes: int, k: int, rng: random.Random) -> Trial:
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    return Trial(
        World(names, topology, (Fault("transient"),), seed=seed_of(rng)), truth(other=frozenset({"transient"}))
    )


def systemic(nodes: int, k: int, rng: random.Random) -> Trial:
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    world = World(names, topology, (Fault("systemic", factor=0.05),), seed=seed_of(rng))
    return Trial(world, truth(other=frozenset({"systemic"})))


def lost(nodes: int, k: int, rng: random.Random) -> Trial:
    """One bad node; another one is lost in one of the first probes."""
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    bad, gone = rng.sample(names, 2)
    world = World(names, topology, (Fault("node", bad),), seed=seed_of(rng))
    world.vanishing = gone
    world.vanishes_at = rng.randrange(2, 12)
    return Trial(world, truth({bad: "node"}, other=frozenset({("lost", gone)})))


def every_second(nodes: int, k: int, rng: random.Random) -> Trial:
    del k
    names, topology = cluster(nodes, rack=8, block=64)
    bad = names[rng.randrange(2) :: 2]
    faults = tuple(Fault("node", node) for node in bad)
    return Trial(World(names, topology, faults, seed=seed_of(rng)), truth(dict.fromkeys(bad, "node")))


def node_target(nodes: int, k: int, lanes: int) -> Target:
    """The targets of isolation.md for node faults; N < 64 has none but exactness."""
    bits = log2(comb(nodes, k)) if k else 0.0
    if not k:
        return Target(jobs=0)
    if nodes < 64:
        return Target()
    if lanes == 64:
        return Target(rounds=5)
    if lanes == 16:
        return Target(
            rounds=8 if k <= 2 else 12,
            searching=(4.5 if k <= 2 else 3.0) * bits,
            node_runs=3 + 60 * k / nodes,
        )
    if lanes == 1:
        return Target(jobs=1.5 * bits + 4 * k)
    return Target()


SIZES = (8, 23, 64, 512, 1024, 4096)
FAULTS = (0, 1, 2, 4, 8)
LANES = (1, 4, 16, 64)


def grid() -> Iterator[Row]:
    """Node faults over N, k and lanes."""
    for nodes in SIZES:
        for k in FAULTS:
            if k >= nodes:
                continue
            for lanes in LANES:
                yield Row("node", nodes, k, lanes, node_faults(), node_target(nodes, k, lanes))


def odd() -> Iterator[Row]:
    """Node faults in groups of odd sizes."""
    for nodes in (65, 777, 4095):
        for k in (1, 8):
            for lanes in (16, 64):
                yield Row("node, odd size", nodes, k, lanes, node_faults(), node_target(nodes, k, lanes))


def kinds() -> Iterator[Row]:
    """The other kinds of faults, 16 lanes."""
    for k in (1, 2, 8):
        yield Row("NIC, one rail", 64, k, 16, nic, Target())
        yield Row("NIC, one rail", 1023, k, 16, nic, Target())
    for k in (1, 2):
        yield Row("NIC in NVL72 racks", 144, k, 16, nic_in_racks, Target())
        yield Row("NVLink, switch", 144, k, 16, nvlink(True), Target())
        yield Row("NVLink, switch", 1152, k, 16, nvlink(True), Target())
        yield Row("NVLink, no switch", 144, k, 16, nvlink(False), Target())
    for nodes, k in ((64, 1), (64, 2), (512, 1), (1024, 4), (4096, 1)):
        flaky = Target(mean_rounds=8, exact=0.0, recall=0.97, false=0.1)
        yield Row("intermittent 0.5", nodes, k, 16, node_faults("intermittent"), flaky)
    for nodes in (23, 64, 512, 1023):
        bound = Target(rounds=2 * log2(nodes) + 4, node_runs=6)
        for traffic in ("ring", "all-pairs"):
            yield Row(f"pair link, {traffic}", nodes, 1, 16, link(traffic), bound)
            yield Row(f"leaf link, {traffic}", nodes, 1, 16, leaf_link(traffic), bound)
            yield Row(f"leaf's uplink, {traffic}", nodes, 1, 16, uplink(traffic), bound)
    for nodes in (64, 512):
        yield Row("hard + link", nodes, 1, 16, hard_and_link, Target(exact=0.95))
        yield Row("size", nodes, 1, 16, size, Target())
        yield Row("not reproduced", nodes, 1, 16, transient, Target())
        yield Row("systemic", nodes, 1, 16, systemic, Target())
        yield Row("lost node", nodes, 1, 16, lost, Target())
        yield Row("every second bad", nodes, 1, 16, every_second, Target())
    yield Row("NIC + NVLink", 144, 1, 16, nic_and_nvlink, Target(exact=0.95))
