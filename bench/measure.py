"""How fast a log of thousands of ranks is read, next to `grep -c` of the same pattern on the same file.

    python bench/measure.py [--kind nccl|training] [--megabytes N] [--ranks 4096] [--prefix none|k8s|mpi] [--keep FILE]

The log is what `NCCL_DEBUG=INFO` and a table in the middle leave on one stream (some lines torn), or a training whose
every rank prints every step. Printed: MB/s (10^6 bytes) of one core, the ratio to grep, the reader's peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

HEADER = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""


def init_lines(rank: int, ranks: int) -> Iterator[str]:
    """What one rank prints while its communicator comes up."""
    host, device = f"gpu-node-{rank // 8:04d}", rank % 8
    head = f"{host}:{20000 + rank}:{30000 + rank} [{device}] NCCL INFO "
    comm = f"0x{(rank * 2654435761) % (1 << 44):x}"
    nics = " ".join(f"[{at}]mlx5_{at}:1/IB" for at in range(8))
    yield head + f"Bootstrap: Using eth0:10.{rank >> 8 & 255}.{rank & 255}.7<0>"
    yield head + "NCCL version 2.26.2+cuda12.8"
    yield head + f"NET/IB : Using {nics} [RO]; OOB eth0:10.{rank >> 8 & 255}.{rank & 255}.7<0>"
    yield head + "Using network IB"
    yield head + f"comm {comm} rank {rank} nRanks {ranks} nNodes {ranks // 8} localRanks 8 localRank {device} MNNVL 0"
    yield head + "NVLS multicast support is available on dev 0"
    yield head + "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer"
    yield head + f"ncclCommInitRank comm {comm} rank {rank} nranks {ranks} cudaDev {device} - Init COMPLETE"


def chatter(rank: int, ranks: int, draw: random.Random) -> str:
    """One of the many lines that say nothing new."""
    host, device = f"gpu-node-{rank // 8:04d}", rank % 8
    head = f"{host}:{20000 + rank}:{30000 + rank} [{device}] NCCL INFO "
    channel, kind = draw.randrange(16), draw.random()
    if kind < 0.4:
        return head + f"Channel {channel:02d}/0 : {rank}[{device}] -> {rank + 1}[{(device + 1) % 8}] via P2P/CUMEM"
    if kind < 0.8:
        peer = (rank + 8) % ranks
        return (
            head + f"Channel {channel:02d}/0 : {rank}[{device}] -> {peer}[{device}] [send] via NET/IB/{device}/GDRDMA"
        )
    if kind < 0.9:
        return head + f"[Proxy Progress] Device {device} CPU core {draw.randrange(128)}"
    return f"[rank{rank}]: step {draw.randrange(10**6)} data loaded in {draw.random():.3f} s"


def table_rows() -> Iterator[str]:
    """A whole sweep, as nccl-tests prints it."""
    for power in range(23, 35):
        size = 1 << power
        micros = 60 + size / 360e3
        algbw = size / micros / 1e3
        half = f"{micros:9.1f}  {algbw:6.2f}  {algbw * 1.998:6.2f}       0"
        yield f"{size:12d}  {size // 4:12d}     float     sum      -1{half}{half}"


def write(path: Path, megabytes: int, ranks: int, prefix: str) -> None:
    """Write a log of about that many megabytes."""
    draw = random.Random(1)
    size, clock = 0, 0
    with path.open("w", encoding="utf-8") as stream:

        def put(line: str, rank: int = 0) -> None:
            nonlocal size, clock
            clock += 1
            minute, second, micros = clock // 60_000_000 % 60, clock // 1_000_000 % 60, clock % 1_000_000
            stamp = f"2026-01-02T10:{minute:02d}:{second:02d}.{micros:06d}000Z "
            tag = {"none": "", "mpi": f"[1,{rank}]<stdout>:", "k8s": stamp}[prefix]
            size += stream.write(tag + line + "\n")

        for rank in range(ranks):
            for line in init_lines(rank, ranks):
                put(line, rank)
        for line in HEADER.splitlines():
            put(line)
        rows = list(table_rows())
        every = megabytes * 1_000_000 // (len(rows) + 1)
        for row in rows:
            goal = size + every
            put(row)
            while size < goal and size < megabytes * 1_000_000:
                rank = draw.randrange(ranks)
                line = chatter(rank, ranks, draw)
                if draw.random() < 0.0001:
                    # Two writers on one pipe: the second one's line stands inside the first one's.
                    cut = draw.randrange(1, len(line))
                    put(line[:cut] + chatter(draw.randrange(ranks), ranks, draw), rank)
                    put(line[cut:], rank)
                else:
                    put(line, rank)
        put("# Out of bounds values : 0 OK")
        put("# Avg bus bandwidth    : 480.123 ")


def write_training(path: Path, megabytes: int, ranks: int) -> None:
    """Write a training log of about that many megabytes in which all ranks print each step, in any order."""
    draw = random.Random(1)
    step = size = 0
    order = list(range(ranks))
    with path.open("w", encoding="utf-8") as stream:
        while size < megabytes * 1_000_000:
            step += 1
            draw.shuffle(order)
            for rank in order:
                size += stream.write(
                    f"[rank{rank}]:[titan] 2026-01-02 10:{step // 60 % 60:02d}:{step % 60:02d},{rank % 1000:03d}"
                    f" - root - INFO - step: {step:2d}  loss: {9 - step / 1e4:8.5f}  grad_norm: {draw.random():7.4f}  "
                    f"memory: 10.00GiB(12.50%)  tps: {7000 + draw.randrange(99):,}  tflops: {400 + draw.random():.2f}  "
                    f"mfu: 40.{draw.randrange(99):02d}%\n"
                )
        stream.write("[rank0]:[titan] 2026-01-02 11:00:00,000 - root - INFO - Training completed\n")


def child(path: Path) -> tuple[resource.struct_rusage, dict[str, Any]]:
    """`python -m measure` of a file in a process of its own: what it used and what it printed."""
    command = [sys.executable, "-m", "measure", str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used, json.loads(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("nccl", "training"), default="nccl")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--prefix", choices=("none", "k8s", "mpi"), default="none")
    parser.add_argument("--keep", type=Path, help="write the log here and keep it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "ranks.log"
        if options.kind == "nccl":
            write(path, options.megabytes, options.ranks, options.prefix)
        else:
            write_training(path, options.megabytes, options.ranks)
        size = path.stat().st_size
        subprocess.run(["cat", str(path)], stdout=subprocess.DEVNULL, check=True)  # both find it in the page cache
        pattern = "NCCL INFO" if options.kind == "nccl" else "step: *[0-9]*  loss"
        begin = time.perf_counter()
        count = subprocess.run(["grep", "-c", pattern, str(path)], capture_output=True, text=True, check=False)
        grep = time.perf_counter() - begin
        empty, _ = child(Path("/dev/null"))
        used, found = child(path)
        took = used.ru_utime + used.ru_stime - empty.ru_utime - empty.ru_stime
    print(
        json.dumps(
            {
                "megabytes": round(size / 1e6, 1),
                "ranks": options.ranks,
                "kind": options.kind,
                "prefix": options.prefix,
                "measure_MBps": round(size / took / 1e6, 1),
                "grep_MBps": round(size / grep / 1e6, 1),
                "ratio_to_grep": round(grep / took, 3),
                "grep_count": int(count.stdout or 0),
                "peak_memory_MB": round(used.ru_maxrss / 1e3, 1),
                "memory_without_log_MB": round(empty.ru_maxrss / 1e3, 1),
                "complete": found["complete"],
                "rows": sum(table["n_rows"] for table in found["tables"]),
                "steps": len(found["steps"]),
                "hosts": len(found["hosts"]),
                "read_ranks": found["ranks"],
                "networks_used": found["transport"].get("networks_used"),
            }
        )
    )


if __name__ == "__main__":
    main()
