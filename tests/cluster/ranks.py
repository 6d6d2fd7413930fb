"""A stand-in for a program of `workloads/`: prints what a rank prints, breaks where CLUSTERPROOF_FAULT says."""

import os
import signal
import sys
import time

rank, node = os.environ["RANK"], os.environ["CLUSTERPROOF_NODE"]
kind, _, where = os.environ.get("CLUSTERPROOF_FAULT", "").partition(":")
hit = where == f"node={node}"

print(f"# rank {rank} of {os.environ['WORLD_SIZE']} on {node}", flush=True)
for size in (1024, 2048, 4096):
    if rank == "0":
        print(f"{size:12d}  {size // 4:12d}     float     sum      -1   10.00    0.10    0.15       0", flush=True)
    if hit and kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if hit and kind == "fail":
        print("the disk is on fire", flush=True)
        sys.exit(3)
    while hit and kind == "hang":
        time.sleep(0.05)
    if kind in {"kill", "fail", "hang", "slow"}:
        time.sleep(0.3 if kind != "slow" else 30)
if rank == "0":
    print('CLUSTERPROOF-RESULT {"schema": "clusterproof.result/v1"}', flush=True)
