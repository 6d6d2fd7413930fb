"""All-reduce in real pods against what the shaped links allow, as a ratio.

    python bench/k8s.py KUBECONFIG --image IMAGE --gbit 1 [--nodes 4] [--repeats 3]

The links must be shaped to `--gbit` and the machine must be able to drive them; the bus bandwidth of a ring over links
of G Gb/s is at most G/8 GB/s (nccl-tests, doc/PERFORMANCE.md). Prints one line a run: the busbw at the largest size of
the best cycle, the ratio, and the seconds by phase.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cluster import Run, RunState, Stop, Workload
from k8s import KubernetesCluster, Settings


def best_busbw(run: Run) -> float:
    line = next(text for text in run.log.decode().splitlines() if text.startswith("CLUSTERPROOF-RESULT"))
    cycles = json.loads(line.partition(" ")[2])["cycles"]
    return max(float(cycle["rows"][-1]["busbw"]) for cycle in cycles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig")
    parser.add_argument("--image", required=True)
    parser.add_argument("--gbit", type=float, required=True, help="rate of the nodes' links")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    session = f"bench{int(time.time())}"
    cluster = KubernetesCluster(
        Settings(kubeconfig=options.kubeconfig, image=options.image, backend="gloo", session=session)
    )
    nodes = tuple(node.name for node in cluster.nodes().nodes)[: options.nodes]
    arguments = ("--collective=all_reduce", "--begin=4M", "--end=4M", "--iters=10", "--warmup=2", "--cycles=3")
    for repeat in range(options.repeats):
        work = Workload(
            name=f"bench-{repeat}",
            case="bench",
            entry="nccl-all-reduce",
            framework="torch",
            program="collectives.py",
            nodes=nodes,
            ranks_per_node=1,
            backend="gloo",
            arguments=arguments,
        )
        run = cluster.run(work, Stop(), lambda _: None)
        if run.state is not RunState.SUCCEEDED:
            print(f"{len(nodes)} nodes: {run.state}: {run.message}")
            continue
        busbw, bound = best_busbw(run), options.gbit / 8
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run.durations.items())
        print(
            f"{len(nodes)} nodes: busbw {busbw:.4f} of {bound:.4f} GB/s = {busbw / bound:.0%} "
            f"({phases}, all {run.seconds:.1f} s)"
        )
    cluster.close()


if __name__ == "__main__":
    main()
