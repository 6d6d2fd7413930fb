"""Do our figures agree with a plain torch.distributed loop? Run `python -m bench.collectives` (Linux, CPUs are enough).

Both measure in the same processes, in turns, and each turn gives a ratio of neighbours in time, so that what else the
machine does falls on both; the median over the turns counts. The plain loop is what anybody would write: barrier, N
collectives, divide. It has buffers of its own and shares nothing with `workloads/collectives.py` but the process group.
Exits 1 where a ratio is off by more than 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from operator import truediv
from pathlib import Path

TOLERANCE = 0.10
HOUSE = Path(__file__).resolve().parent.parent


def plain(collective: str, nbytes: int, iters: int) -> float:
    """Seconds an operation, by a plain loop."""
    import torch  # noqa: PLC0415 - only the ranks need it
    import torch.distributed as dist  # noqa: PLC0415

    count = nbytes // 4
    data = torch.zeros(count)
    part = torch.zeros(count // dist.get_world_size())

    def once() -> None:
        if collective == "all_reduce":
            dist.all_reduce(data)
        else:
            dist.all_gather_single(data, part)

    dist.barrier()
    begin = time.perf_counter()
    for _ in range(iters):
        once()
    return (time.perf_counter() - begin) / iters


def rank_main(args: argparse.Namespace) -> None:
    """One rank: both measurements in turns, for each collective and size; rank 0 prints JSON lines."""
    import torch  # noqa: PLC0415

    from workloads import collectives  # noqa: PLC0415

    torch.set_num_threads(1)
    ranks = collectives.ranks_from(os.environ)
    watchdog = collectives.Watchdog(600, lambda _what, code: os._exit(code))
    joined = False
    for collective in ("all_reduce", "all_gather"):
        sweep = [f"--begin={args.begin}", f"--end={args.end}", "--factor=16", f"--iters={args.iters}", "--warmup=0"]
        ours = collectives.arguments([f"--collective={collective}", *sweep])
        if not joined:
            collectives.join(ours, ranks, "gloo", watchdog)
            joined = True
        bench = collectives.Bench(ours, ranks, "gloo", collectives.Fault(), watchdog)
        bench.allocate(ranks.world)
        for this in bench.layouts:
            times: dict[str, list[float]] = {"plain": [], "in_place": [], "out_of_place": []}
            turns = args.turns * (1 if this.nbytes > 1 << 20 else 5)
            for turn in range(turns + 1):
                own = plain(collective, this.nbytes, args.iters) * 1e6
                cells = {where: bench.cell(this, where == "in_place", turn) for where in ("in_place", "out_of_place")}
                if turn:  # the first turn warms both up
                    times["plain"].append(own)
                    for where, cell in cells.items():
                        times[where].append(cell.times_us[ranks.rank])
            if ranks.rank == 0:
                typical = statistics.median(times["plain"])
                ratios = {
                    where: statistics.median(map(truediv, times[where], times["plain"]))
                    for where in ("in_place", "out_of_place")
                }
                print(
                    json.dumps({"collective": collective, "size": this.nbytes, "plain": typical, **ratios}), flush=True
                )


def main() -> int:
    """Start the ranks, print the table, say whether we agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--begin", default="4K")
    parser.add_argument("--end", default="16M")
    parser.add_argument("--iters", type=int, default=10)
    parser.add_argument("--turns", type=int, default=40)
    args = parser.parse_args()
    if "RANK" in os.environ:
        rank_main(args)
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(args.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:]],
            cwd=HOUSE,
            env={**os.environ, **common, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(args.ranks)
    ]
    output = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        return 1
    worst = 0.0
    print(f"{'collective':>12}{'size':>12}{'plain us':>12}{'in place':>10}{'out of place':>14}")
    for line in output[0].splitlines():
        row = json.loads(line)
        ratios = [row["in_place"], row["out_of_place"]]
        worst = max(worst, *(abs(ratio - 1) for ratio in ratios))
        print(f"{row['collective']:>12}{row['size']:>12}{row['plain']:>12.1f}{ratios[0]:>10.3f}{ratios[1]:>14.3f}")
    print(f"worst difference {worst:.1%}, allowed {TOLERANCE:.0%}")
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
