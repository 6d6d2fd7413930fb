"""A thousand hollow nodes: time and memory of discovery, one run over all of them, and many small runs side by side.

    python bench/k8s_scale.py KUBECONFIG [--full N] [--single N] [--lanes N]

The nodes are kwok's (objects without a machine behind them; pods turn Running and Succeeded by themselves), so what is
measured is the suite and the control plane, not a program. Prints one line a phase; needs a disposable cluster.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cluster import Stop, Workload
from k8s import KubernetesCluster, Settings


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def workload(name: str, nodes: tuple[str, ...]) -> Workload:
    return Workload(
        name=name,
        case=name,
        entry="nccl-all-reduce",
        framework="torch",
        program="collectives.py",
        nodes=nodes,
        ranks_per_node=8,
        backend="nccl",
        arguments=("--collective=all_reduce",),
        start_limit_s=240,
        time_limit_s=240,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig")
    parser.add_argument("--full", type=int, default=1000, help="nodes of the one large run")
    parser.add_argument("--single", type=int, default=200, help="single-node runs")
    parser.add_argument("--lanes", type=int, default=32, help="runs side by side")
    options = parser.parse_args()
    cluster = KubernetesCluster(Settings(kubeconfig=options.kubeconfig, session=f"bench{int(time.time())}"))
    begun = time.monotonic()
    inventory = cluster.nodes()
    print(
        f"discovery: {len(inventory.nodes)} nodes, {len(inventory.excluded)} excluded in "
        f"{time.monotonic() - begun:.1f} s, {memory_mb():.0f} MB"
    )
    names = tuple(node.name for node in inventory.nodes)
    if options.full:
        begun = time.monotonic()
        run = cluster.run(workload("full-scale", names[: options.full]), Stop(), lambda words: print(f"  {words}"))
        print(
            f"one run over {options.full} nodes: {run.state} in {time.monotonic() - begun:.1f} s "
            f"{dict(run.durations)}, {memory_mb():.0f} MB {run.message} {run.leftovers[:2]}"
        )
    begun = time.monotonic()
    with ThreadPoolExecutor(options.lanes) as pool:
        runs = list(
            pool.map(
                lambda place: cluster.run(workload(f"single-{place}", (names[place],)), Stop(), lambda _: None),
                range(options.single),
            )
        )
    states = Counter(str(run.state) for run in runs)
    print(
        f"{options.single} runs of one node, {options.lanes} side by side: {dict(states)} in "
        f"{time.monotonic() - begun:.1f} s, {memory_mb():.0f} MB"
    )
    cluster.close()


if __name__ == "__main__":
    main()
