"""Runs in every pod of a workload, before the program: gives ranks by topology order, whatever the scheduler did.

It travels in a ConfigMap and stands alone (any Python 3.8, no packages). A pod learns its node from the downward API
and takes its place in the ordered node list beside this file, so that a measurement depends on the nodes and never on
luck. torch makes rank 0 the rendezvous server, but rank 0's address is known to nobody yet: all pods meet at the pod
with completion index 0, whose name DNS knows, say who they are, and learn where rank 0 is. Then it starts the
program once per local rank, passes its lines on whole, and writes how each rank ended to the termination message,
with length and hash of all that it printed, so that a log that lost a part is noticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
MEETING_PORT = int(os.environ.get("CLUSTERPROOF_MEETING_PORT", "29400"))
MEETING_S = float(os.environ.get("CLUSTERPROOF_MEETING_S", "300"))
TERMINATION = Path(os.environ.get("CLUSTERPROOF_TERMINATION", "/dev/termination-log"))
GRACE_S = 5.0
NAMED = 20


class Output:
    """Standard output shared by the local ranks: whole lines, counted and hashed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self.hash = hashlib.sha256()

    def line(self, data: bytes) -> None:
        """Write one line, newline included."""
        with self.lock:
            self.bytes += len(data)
            self.hash.update(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


OUT = Output()


def finish(exits: dict[str, int], code: int, what: str = "", ends: dict[str, float] | None = None) -> None:
    """Leave the termination message (4 KiB at most) and end the pod with `code`; `ends` are epoch seconds by rank."""
    message: dict[str, Any] = {"exits": exits, "ends": ends or {}, "bytes": OUT.bytes, "sha256": OUT.hash.hexdigest()}
    if what:
        message["what"] = what[:1000]
    with contextlib.suppress(OSError):
        TERMINATION.write_text(json.dumps(message))
    os._exit(code)


def fail(what: str, code: int = 1) -> None:
    """End with one line that the suite reads, before any program was started; 127 as in a shell: no such command."""
    node = os.environ.get("CLUSTERPROOF_NODE", "")
    error = {"schema": "clusterproof.error/v1", "rank": -1, "node": node, "what": what}
    OUT.line(f"CLUSTERPROOF-ERROR {json.dumps(error)}\n".encode())
    finish({}, code, what)


def serve(count: int) -> None:
    """At the meeting point: hold every pod's connection until all have come, then tell each who is where."""
    server = socket.create_server(("", MEETING_PORT), backlog=4096)
    server.settimeout(1)
    here: dict[str, socket.socket] = {}
    where: dict[str, str] = {}
    end = time.monotonic() + MEETING_S
    while len(where) < count and time.monotonic() < end:
        try:
            peer, _ = server.accept()
            peer.settimeout(10)
            node, address = peer.makefile("r").readline().split()
        except (OSError, ValueError):
            continue
        here[node], where[node] = peer, address
    text = f"{json.dumps(where)}\n".encode()
    for peer in here.values():
        with contextlib.suppress(OSError):
            peer.sendall(text)
            peer.close()


def ask(host: str, node: str, address: str, until: float) -> dict[str, str]:
    """Say who we are at the meeting point; everybody's address by node. Raises `OSError` or `ValueError`."""
    with socket.create_connection((host, MEETING_PORT), timeout=5) as peer:
        peer.settimeout(max(1.0, until - time.monotonic()))
        peer.sendall(f"{node} {address}\n".encode())
        line = peer.makefile("r").readline()
    if not line.endswith("\n"):
        raise OSError("the meeting point hung up")
    return dict(json.loads(line))


def meet(order: list[str]) -> dict[str, str]:
    """Addresses of all pods, by node. Ends the pod where the meeting fails."""
    node, address, host = (os.environ[f"CLUSTERPROOF_{name}"] for name in ("NODE", "POD_IP", "MEETING"))
    server = threading.Thread(target=serve, args=(len(order),), daemon=True)
    if os.environ.get("JOB_COMPLETION_INDEX", "0") == "0":
        server.start()
        host = "127.0.0.1"
    until = time.monotonic() + MEETING_S + 10
    problem = "no time"
    while time.monotonic() < until:
        try:
            where = ask(host, node, address, until)
        except socket.gaierror as error:
            problem = f"its name {host} does not resolve: {error}"
        except (OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            if server.is_alive():
                server.join(30)  # this pod may end at once, but not before the others have their answer
            absent = [name for name in order if name not in where]
            if absent:
                fail(f"not all pods came to the meeting in {MEETING_S:.0f} s: missing {', '.join(absent[:NAMED])}")
            return where
        time.sleep(0.5)
    fail(f"cannot reach the meeting point (the pod with index 0) in {MEETING_S:.0f} s: {problem}")
    return {}


def pump(stream: IO[bytes], prefix: bytes) -> None:
    """Pass a rank's lines on; ranks beside the first are tagged as OpenMPI tags them, which every reader knows."""
    for line in stream:
        OUT.line(prefix + (line if line.endswith(b"\n") else line + b"\n"))


def start(
    command: list[str], environments: dict[int, dict[str, str]]
) -> tuple[dict[int, subprocess.Popen[bytes]], list[threading.Thread]]:
    """One process a local rank, each with a thread for its lines."""
    processes: dict[int, subprocess.Popen[bytes]] = {}
    pumps: list[threading.Thread] = []
    for rank, env in environments.items():
        prefix = b"" if env["LOCAL_RANK"] == "0" else f"[1,{rank}]<stdout>: ".encode()
        try:
            process = subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            fail(f"cannot start {command[0]!r} in this image: {error}", 127)
        processes[rank] = process
        pumps.append(threading.Thread(target=pump, args=(process.stdout, prefix), daemon=True))
        pumps[-1].start()
    return processes, pumps


def end_all(processes: dict[int, subprocess.Popen[bytes]], how: signal.Signals) -> None:
    """Signal every process group that still runs."""
    for process in processes.values():
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, how)


def await_end(rank: int, process: subprocess.Popen[bytes], ends: dict[str, float]) -> None:
    """Note the moment a rank ends; which was first tells the cause from its victims."""
    process.wait()
    ends[str(rank)] = round(time.time(), 3)


def supervise(processes: dict[int, subprocess.Popen[bytes]], pumps: list[threading.Thread]) -> None:
    """Wait for all ranks; when one fails the others get a moment, then the pod ends with the first failure's code."""
    exits: dict[int, int] = {}
    ends: dict[str, float] = {}
    code, deadline = 0, 0.0
    for rank, process in processes.items():
        threading.Thread(target=await_end, args=(rank, process, ends), daemon=True).start()
    while len(exits) < len(processes):
        for rank, process in processes.items():
            status = process.poll()
            if rank in exits or status is None:
                continue
            exits[rank] = status
            if status and not code:
                code = status if status > 0 else 128 - status
                deadline = time.monotonic() + GRACE_S
        if deadline and time.monotonic() > deadline:
            end_all(processes, signal.SIGKILL)
        time.sleep(0.05)
    for thread in pumps:
        thread.join(2)
    finish({str(rank): exits[rank] for rank in sorted(exits)}, code, ends=ends)


def main() -> None:
    """`launcher.py COMMAND…`: `{here}` in a word is the folder of the program files."""
    command = [word.replace("{here}", str(HERE)) for word in sys.argv[1:]]
    order, node = (HERE / "nodes").read_text().split(), os.environ.get("CLUSTERPROOF_NODE", "")
    if node not in order:
        fail(f"this pod runs on node {node!r}, which is not of the group {', '.join(order[:NAMED])}")
    local = int(os.environ.get("CLUSTERPROOF_RANKS_PER_NODE", "1"))
    where = meet(order) if len(order) > 1 else {node: "127.0.0.1"}
    first = order.index(node) * local
    shared = dict(os.environ, WORLD_SIZE=str(len(order) * local), LOCAL_WORLD_SIZE=str(local))
    shared.setdefault("MASTER_PORT", "29500")
    shared["MASTER_ADDR"] = where[order[0]]
    shared["CLUSTERPROOF_NODES"] = ",".join(order)
    if "PET_NODE_RANK" in shared:  # what Kubeflow Trainer tells torchrun, by its own order of nodes
        shared["PET_NODE_RANK"], shared["PET_MASTER_ADDR"] = str(order.index(node)), where[order[0]]
    environments = {first + k: dict(shared, RANK=str(first + k), LOCAL_RANK=str(k)) for k in range(local)}
    processes, pumps = start(command, environments)
    signal.signal(signal.SIGTERM, lambda *_: end_all(processes, signal.SIGTERM))
    supervise(processes, pumps)


if __name__ == "__main__":
    main()
