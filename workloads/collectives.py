"""Measures and checks one collective between all ranks, and prints the table of nccl-tests: no other file needed.

With `proof.py` next to it the result line also says what NCCL used, which counters moved, and what the nodes are.

Needs Python 3.10 and PyTorch 2.3. Started once a rank with RANK, WORLD_SIZE and MASTER_ADDR (MASTER_PORT, LOCAL_RANK
where they differ from 29500 and 0), by hand or by torchrun, it sweeps message sizes with PyTorch over `nccl` (GPUs) or
`gloo` (CPUs). Rank 0 prints a row as soon as it is measured and at last one line `CLUSTERPROOF-RESULT {json}`. Whatever
goes wrong on a rank ends that rank within the time limit, non-zero, with a sentence and a line `CLUSTERPROOF-ERROR
{json}`: a silent end does not exist.

What the numbers mean follows nccl-tests (https://github.com/NVIDIA/nccl-tests):
* size is the larger of what one rank sends and receives; pieces of all_gather, reduce_scatter and alltoall are rounded
  down to 16 bytes a rank, and `count` is the piece (src/all_gather.cu, src/reduce_scatter.cu, src/alltoall.cu);
* a time is the wall time of all iterations through their number, averaged over ranks (README.md, `-a` default 1); where
  they would take longer than `--limit` there are fewer of them (`iters` of the row);
* algbw = size / time, busbw = algbw x a factor of the collective (doc/PERFORMANCE.md, "Summary");
* `#wrong` counts the elements, over all ranks, that differ from the right result in an untimed iteration after the
  timed ones, whose input nobody has seen before (so that a stale buffer shows).
PyTorch has all_reduce and broadcast in place only. Both sides of the table then time that form; on the out-of-place
side the checked iteration gets its input from a buffer of its own.

Under the suite (CLUSTERPROOF_NODE is set) a complete run exits 0 even with wrong elements, because the result line
carries them and the suite judges it; run by hand it exits 1. On SIGTERM a rank says which step it was in before it
ends (`CLUSTERPROOF-ENDED {json}`): among ranks that wait for each other, the one that is behind is the one to look at.

CLUSTERPROOF_FAULT="KIND:rank=R,after=SIZE" (or node=NAME for all ranks of a node) breaks a run on purpose, for the
suite's own tests: `kill` and `hang` act before the first size above SIZE, `corrupt` changes one element of the rank's
result at every size above it, and `stop-early` (with node=NAME in every run that has that node) ends the sweep there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from torch import Tensor

ALIGNMENT = 16
"""Bytes that a rank's piece is rounded down to, as nccl-tests does."""
PERIOD = 1021
"""Elements after which a test pattern repeats: prime, so that no shift by a usual buffer size goes unseen."""
BLOCK = PERIOD * 8192
"""Elements compared at once: bounds the memory that a check needs."""
GRACE_S = 15
"""gloo's own limit comes this much before our watchdog, for it says more; that of NCCL aborts, and comes after it."""
MOST_RANKS_LISTED = 1024
"""Above, neither the device list nor the result line has an entry a rank: standard output stays small."""
HEARTBEAT_S = 10.0
"""A cycle that ends this long after the last output prints a comment, so that a slow run does not look dead."""

DTYPES: dict[str, tuple[str, int, int]] = {
    # name in nccl-tests: (name in torch, bytes, largest whole number up to which every sum is exact)
    "int8": ("int8", 1, 127),
    "uint8": ("uint8", 1, 255),
    "int32": ("int32", 4, 2**31 - 1),
    "int64": ("int64", 8, 2**53),
    "half": ("float16", 2, 2048),
    "bfloat16": ("bfloat16", 2, 256),
    "float": ("float32", 4, 2**24),
    "double": ("float64", 8, 2**53),
}


class Failure(Exception):  # noqa: N818 - what a rank reports before it ends
    """What went wrong, in words for the person who reads the log."""


@dataclass(frozen=True, slots=True)
class Collective:
    """What sets one collective apart from the others; the rest of this file is the same for all."""

    factor: Callable[[int], float]
    """busbw / algbw for n ranks (doc/PERFORMANCE.md)."""
    run: Callable[[Any, Tensor, Tensor, Ranks], None]
    """(torch.distributed, send, recv, ranks): starts it and waits for it on CPUs, enqueues it on GPUs."""
    split: bool = False
    """The input holds one piece for each rank."""
    output: str = "sum"
    """`sum` of all ranks' pieces, `each` rank's piece in rank order, the piece of the `root` or of the `previous`."""
    pieces: bool = False
    """Sizes are cut into a piece a rank."""
    in_place: bool = True
    one_buffer: bool = False
    """PyTorch takes only one buffer, which holds the input before and the output after."""
    redop: str = "none"
    root: int = -1


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who we are among how many."""

    rank: int
    world: int
    local: int
    node: str


def _all_reduce(dist: Any, _send: Tensor, recv: Tensor, _ranks: Ranks) -> None:
    dist.all_reduce(recv)


def _all_gather(dist: Any, send: Tensor, recv: Tensor, _ranks: Ranks) -> None:
    # PyTorch 2.13 renamed these two; images carry older ones.
    getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(recv, send)


def _reduce_scatter(dist: Any, send: Tensor, recv: Tensor, _ranks: Ranks) -> None:
    getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(recv, send)


def _alltoall(dist: Any, send: Tensor, recv: Tensor, _ranks: Ranks) -> None:
    dist.all_to_all_single(recv, send)


def _broadcast(dist: Any, _send: Tensor, recv: Tensor, _ranks: Ranks) -> None:
    dist.broadcast(recv, src=0)


def _sendrecv(dist: Any, send: Tensor, recv: Tensor, ranks: Ranks) -> None:
    """Every rank sends to the next and receives from the previous (src/sendrecv.cu)."""
    operations = [
        dist.P2POp(dist.isend, send, (ranks.rank + 1) % ranks.world),
        dist.P2POp(dist.irecv, recv, (ranks.rank - 1) % ranks.world),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _share(n: int) -> float:
    return (n - 1) / n


COLLECTIVES: dict[str, Collective] = {
    "all_reduce": Collective(factor=lambda n: 2 * (n - 1) / n, run=_all_reduce, one_buffer=True, redop="sum"),
    "all_gather": Collective(factor=_share, run=_all_gather, output="each", pieces=True),
    "reduce_scatter": Collective(factor=_share, run=_reduce_scatter, split=True, pieces=True, redop="sum"),
    "alltoall": Collective(factor=_share, run=_alltoall, split=True, output="each", pieces=True, in_place=False),
    "broadcast": Collective(factor=lambda _: 1.0, run=_broadcast, output="root", one_buffer=True, root=0),
    "sendrecv": Collective(factor=lambda _: 1.0, run=_sendrecv, output="previous", in_place=False),
}


# --- arguments ------------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """argparse that fails like everything else here."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise Failure(f"{message} (see --help)")


def size(text: str) -> int:
    """`16M` → 16777216: a whole number of bytes with K, M, G or T for powers of 1024, as nccl-tests reads sizes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"a size is a number with K, M, G or T behind it, not {text!r}")
    value = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"a size is a whole number of bytes above 0, not {text!r}")
    return int(value)


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, found {text!r}")
        return int(text)

    return number


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; raises `Failure`."""
    parser = Parser(prog="collectives.py", description="Measure and check one collective between all ranks.")
    parser.add_argument("--collective", choices=sorted(COLLECTIVES), default="all_reduce")
    parser.add_argument("--begin", type=size, default=8, help="smallest size (default 8)")
    parser.add_argument("--end", type=size, default=64 * 2**20, help="largest size (default 64M)")
    parser.add_argument("--factor", type=_whole(2), default=2, help="from one size to the next (default 2)")
    parser.add_argument("--iters", type=_whole(1), default=20, help="timed iterations a cycle (default 20)")
    parser.add_argument(
        "--warmup", type=_whole(0), default=5, help="untimed iterations before a size (default 5, at least 1)"
    )
    parser.add_argument("--cycles", type=_whole(1), default=1, help="repeats of each measurement (default 1)")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--limit", type=_whole(1), default=60, help="seconds a cycle may take: fewer iterations (60)")
    parser.add_argument("--timeout", type=_whole(1), default=1800, help="seconds one step may take (default 1800)")
    args = parser.parse_args(argv)
    if args.begin > args.end:
        raise Failure(f"--begin {args.begin} is above --end {args.end}")
    return args


def ranks_from(env: MutableMapping[str, str]) -> Ranks:
    """Who we are, from the variables that torchrun and every launcher of PyTorch jobs set; raises `Failure`."""
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR") if not env.get(name)]
    if missing:
        raise Failure(f"{', '.join(missing)} not set: start one process a rank with them, or use torchrun")
    numbers = {"RANK": env["RANK"], "WORLD_SIZE": env["WORLD_SIZE"], "LOCAL_RANK": env.get("LOCAL_RANK", "0")}
    bad = [f"{name}={value!r}" for name, value in numbers.items() if not value.isdecimal()]
    if bad:
        raise Failure(f"expected whole numbers, found {', '.join(bad)}")
    rank, world = int(numbers["RANK"]), int(numbers["WORLD_SIZE"])
    if rank >= world:
        raise Failure(f"RANK={rank} is not below WORLD_SIZE={world}")
    env.setdefault("MASTER_PORT", "29500")
    return Ranks(rank, world, int(numbers["LOCAL_RANK"]), env.get("CLUSTERPROOF_NODE") or socket.gethostname())


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to show on purpose (CLUSTERPROOF_FAULT)."""

    kind: str = ""
    where: str = ""
    """`rank=R` or `node=NAME`; empty for every rank."""
    after: int = 0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`hang:rank=2,after=1M`; the empty string is no fault. Raises `Failure`."""
        if not text:
            return cls()
        match = re.fullmatch(
            r"(kill|hang|corrupt|stop-early)(?::((?:rank|node)=[^,]+)?,?(?:after=(\d+[KMGT]?))?)?", text
        )
        if not match:
            raise Failure(f"CLUSTERPROOF_FAULT={text!r}: expected (kill|hang|corrupt|stop-early):rank=R,after=SIZE")
        return cls(match[1], match[2] or "", size(match[3]) if match[3] else 0)

    def hits(self, kind: str, ranks: Ranks, nbytes: int) -> bool:
        """Whether it shows on this rank at this size."""
        if self.kind != kind or nbytes <= self.after:
            return False
        # A sweep is cut short by all ranks together, or those who go on would wait for those who left.
        nodes = os.environ.get("CLUSTERPROOF_NODES", "").split(",") if kind == "stop-early" else [ranks.node]
        return self.where in {"", f"rank={ranks.rank}", *(f"node={node}" for node in nodes)}

    def strike(self, ranks: Ranks, nbytes: int) -> bool:
        """Die or hang where asked to; True where the sweep shall be left."""
        if self.hits("kill", ranks, nbytes):
            os.kill(os.getpid(), signal.SIGKILL)
        while self.hits("hang", ranks, nbytes):
            time.sleep(1)
        return self.hits("stop-early", ranks, nbytes)


# --- layout and test pattern ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """How many elements a size means for one collective."""

    requested: int
    piece: int
    """Elements of one piece; `count` in the table."""
    send: int
    recv: int
    nbytes: int
    """What the table's `size` says."""


def layout(collective: Collective, requested: int, world: int, width: int) -> Layout:
    """Elements and bytes of one message size; `width` is the bytes of an element."""
    piece = requested // width
    if collective.pieces:
        line = max(1, ALIGNMENT // width)
        piece = piece // world // line * line
    send = piece * (world if collective.split else 1)
    recv = piece * (world if collective.output == "each" else 1)
    return Layout(requested, piece, send, recv, max(send, recv) * width)


def sweep(collective: Collective, sizes: Sequence[int], world: int, width: int) -> list[Layout]:
    """The sizes that a run measures: those with at least one element a piece, each once. Raises `Failure` for none."""
    layouts: dict[int, Layout] = {}
    for requested in sizes:
        this = layout(collective, requested, world, width)
        if this.piece:
            layouts.setdefault(this.nbytes, this)
    if not layouts:
        raise Failure(f"{sizes[-1]} bytes do not hold an element for each of {world} ranks: raise --end")
    return list(layouts.values())


def steps(begin: int, end: int, factor: int) -> list[int]:
    """`begin`, times `factor`, and so on up to `end`."""
    sizes = [begin]
    while sizes[-1] * factor <= end:
        sizes.append(sizes[-1] * factor)
    return sizes


class Pattern:
    """Test data: one table of `PERIOD` small whole numbers for each (sender, receiver, repetition), repeated.

    The sum over all ranks stays below the largest number that the type adds without rounding, in any order.
    """

    def __init__(self, torch: Any, like: Tensor, world: int, addends: int, limit: int) -> None:
        """For buffers as `like`, whose results add up `addends` pieces and may not exceed `limit`."""
        self.torch, self.like, self.world = torch, like, world
        self.every = -(-addends // limit)  # with more ranks than the type can count only every n-th adds something
        self.top = max(1, min(limit // addends, 97))
        self.index: Tensor = torch.arange(PERIOD, dtype=torch.int64)

    def _numbers(self, senders: Tensor, receiver: Tensor, repetition: int) -> Tensor:
        mixed = self.index * 7919 + senders * 104729 + (receiver + 1) * 15485863 + repetition * 1299709
        mixed = (mixed ^ (mixed >> 7)) * 31
        numbers = (mixed ^ (mixed >> 5)) % (self.top + 1)
        numbers[(senders + self.index + repetition).expand_as(numbers) % self.every != 0] = 0
        return numbers

    def tables(self, sender: int | None, receiver: int | None, repetition: int) -> Tensor:
        """(pieces, PERIOD): of one sender or (None) of each, to one receiver or (None) to each."""
        everyone = self.torch.arange(self.world, dtype=self.torch.int64)[:, None]
        senders = everyone if sender is None else self.torch.tensor([[sender]])
        receivers = everyone if receiver is None else self.torch.tensor([[receiver]])
        return self._put(self._numbers(senders, receivers, repetition))

    def total(self, receiver: int, repetition: int) -> Tensor:
        """(1, PERIOD): the sum over all senders."""
        total = self.torch.zeros(1, PERIOD, dtype=self.torch.int64)
        for first in range(0, self.world, 1024):
            senders = self.torch.arange(first, min(first + 1024, self.world), dtype=self.torch.int64)[:, None]
            total += self._numbers(senders, self.torch.tensor([[receiver]]), repetition).sum(0, keepdim=True)
        return self._put(total)

    def _put(self, numbers: Tensor) -> Tensor:
        return numbers.to(self.like.dtype).to(self.like.device)


EVERYBODY = -1
"""The receiver of a piece that all ranks get."""


def sent(collective: Collective, pattern: Pattern, ranks: Ranks, repetition: int) -> Tensor:
    """Tables of the pieces that this rank sends."""
    receivers = {"previous": (ranks.rank + 1) % ranks.world}
    receiver = None if collective.split else receivers.get(collective.output, EVERYBODY)
    return pattern.tables(ranks.rank, receiver, repetition)


def expected(collective: Collective, pattern: Pattern, ranks: Ranks, repetition: int) -> Tensor:
    """Tables of the pieces that this rank must receive."""
    receiver = ranks.rank if collective.split or collective.output == "previous" else EVERYBODY
    if collective.output == "sum":
        return pattern.total(receiver, repetition)
    senders = {"each": None, "root": collective.root, "previous": (ranks.rank - 1) % ranks.world}
    return pattern.tables(senders[collective.output], receiver, repetition)


def fill(buffer: Tensor, tables: Tensor) -> None:
    """Write each table over its piece of the buffer, again and again."""
    for piece, table in zip(buffer.view(len(tables), -1), tables, strict=True):
        whole = len(piece) // PERIOD * PERIOD
        piece[:whole].view(-1, PERIOD).copy_(table)
        piece[whole:].copy_(table[: len(piece) - whole])


def count_wrong(buffer: Tensor, tables: Tensor) -> int:
    """Elements that differ from what `fill` would write."""
    wrong = 0
    for piece, table in zip(buffer.view(len(tables), -1), tables, strict=True):
        whole = len(piece) // PERIOD * PERIOD
        for first in range(0, whole, BLOCK):
            part = piece[first : min(first + BLOCK, whole)].view(-1, PERIOD)
            wrong += int((part != table).sum())
        wrong += int((piece[whole:] != table[: len(piece) - whole]).sum())
    return wrong


# --- measuring ------------------------------------------------------------------------------------------------------


class Watchdog:
    """Ends this process when a step takes longer than the limit or SIGTERM comes, whatever it is blocked in.

    A signal handler would not do: Python runs it only after the call into the library has returned.
    """

    def __init__(self, seconds: float, give_up: Callable[[str, int], None]) -> None:
        self._seconds, self._give_up = seconds, give_up
        self.tick: Callable[[], None] = lambda: None
        """Called about once a second."""
        self.nodes: dict[str, str] = {}
        """Address → the one node that has it."""
        self.steps, self.current, self._since = 0, "start", time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # before any thread starts: all inherit it
        threading.Thread(target=self._watch, daemon=True).start()

    def step(self, what: str) -> None:
        """A new step begins; `what` is what the message will name if it never ends."""
        self.steps, self.current, self._since = self.steps + 1, what, time.monotonic()

    def peer_in(self, what: str) -> str | None:
        """The node whose address a message names: `Connection closed by peer [10.0.0.7]:4711`."""
        found = re.search(r"\[([0-9a-fA-F.:]+)\]:\d+", what)
        return self.nodes.get(found[1]) if found else None

    def _watch(self) -> None:
        while (waited := time.monotonic() - self._since) < self._seconds:
            if signal.sigtimedwait([signal.SIGTERM], min(1.0, self._seconds / 10)):
                self._give_up(f"ended from outside, {waited:.1f} s into {self.current}", 128 + signal.SIGTERM)
            self.tick()
        self._give_up(f"{self.current}: nothing happened for {self._seconds:.0f} s", 1)


@dataclass(slots=True)
class Cell:
    """One measurement of one size: wall time and wrong elements of every rank."""

    times_us: list[float]
    wrong: list[int]
    iters: int = 0

    @property
    def time_us(self) -> float:
        """Average over the ranks."""
        return sum(self.times_us) / len(self.times_us)


@dataclass(slots=True)
class Row:
    """All measurements of one size."""

    layout: Layout
    out_of_place: list[Cell] = field(default_factory=list)
    in_place: list[Cell] = field(default_factory=list)


class Bench:
    """Buffers, clocks and the process group of one rank."""

    def __init__(self, args: argparse.Namespace, ranks: Ranks, backend: str, fault: Fault, watchdog: Watchdog) -> None:
        import torch  # noqa: PLC0415 - a missing torch must be said in our words
        import torch.distributed as dist  # noqa: PLC0415

        self.backend = backend
        self.torch: Any = torch
        self.dist: Any = dist
        self.args, self.ranks, self.fault, self.watchdog = args, ranks, fault, watchdog
        self.collective = COLLECTIVES[args.collective]
        self.device = device_of(torch, backend, ranks)
        name, self.width, limit = DTYPES[args.dtype]
        self.dtype = getattr(torch, name)
        self.layouts = sweep(self.collective, steps(args.begin, args.end, args.factor), ranks.world, self.width)
        self.repetition = 0
        self.limit = limit
        self.iters = {False: int(args.iters), True: int(args.iters)}
        """Iterations of the size that is measured, out of place and in place."""

    def allocate(self, neighbours: int) -> None:
        """Buffers for the largest size; raises `Failure` where `neighbours` ranks of a host have no room for them."""
        largest = self.layouts[-1]
        needed = (largest.send + largest.recv) * self.width
        self.watchdog.step(f"allocating {needed} bytes")
        free = free_memory() if self.device.type == "cpu" else None
        if free is not None and needed * neighbours > free:
            where = f"the {free} bytes of memory that are free on {self.ranks.node}"
            raise Failure(f"{neighbours} ranks with {needed} bytes each do not fit into {where}: lower --end")
        self.send: Tensor = self.torch.zeros(largest.send, dtype=self.dtype, device=self.device)
        self.recv: Tensor = self.torch.zeros(largest.recv, dtype=self.dtype, device=self.device)
        addends = self.ranks.world if self.collective.output == "sum" else 1
        self.pattern = Pattern(self.torch, self.recv, self.ranks.world, addends, self.limit)

    def sync(self) -> None:
        """Wait until everything enqueued has run."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def buffers(self, this: Layout, in_place: bool) -> tuple[Tensor, Tensor]:
        """Input and output for one size; in place the smaller of both lies inside the larger one."""
        send, recv = self.send[: this.send], self.recv[: this.recv]
        if in_place and this.recv >= this.send:
            send = recv if this.send == this.recv else recv.view(self.ranks.world, -1)[self.ranks.rank]
        elif in_place:
            recv = send.view(self.ranks.world, -1)[self.ranks.rank]
        return send, recv

    def run(self, send: Tensor, recv: Tensor) -> None:
        """The collective, once."""
        self.collective.run(self.dist, send, recv, self.ranks)

    def everywhere(self, *own: float) -> list[list[float]]:
        """These numbers of every rank, in rank order."""
        mine = self.torch.tensor(own, dtype=self.torch.float64, device=self.device)
        everyone = self.torch.empty(len(own) * self.ranks.world, dtype=self.torch.float64, device=self.device)
        _all_gather(self.dist, mine, everyone, self.ranks)
        found: list[list[float]] = everyone.view(-1, len(own)).tolist()
        return found

    def seconds(self, send: Tensor, recv: Tensor, iters: int) -> float:
        """Mean time of one iteration on this rank."""
        self.dist.barrier()
        self.sync()
        start = time.perf_counter()
        for _ in range(iters):
            self.run(send, recv)
        self.sync()
        return (time.perf_counter() - start) / iters

    def affordable(self, send: Tensor, recv: Tensor) -> int:
        """Iterations that fit into `--limit` by what one takes on the slowest rank: all ranks come to the same number.

        A slow network is to be measured as slow, not to be taken for dead. The first iteration of all may also connect
        the ranks, so a long one is given a second chance.
        """
        iters, limit = int(self.args.iters), float(self.args.limit)
        for _ in range(2):
            slowest = max(one for (one,) in self.everywhere(self.seconds(send, recv, 1)))
            if slowest * iters <= limit:
                return iters
        return max(1, int(limit / slowest))

    def wrong(self, send: Tensor, recv: Tensor, nbytes: int) -> int:
        """Run once with fresh data and count this rank's wrong elements."""
        self.repetition += 1
        self.write_input(send, recv)
        self.run(send, recv)
        self.sync()
        if self.fault.hits("corrupt", self.ranks, nbytes):
            recv[0] += 1
        return count_wrong(recv, expected(self.collective, self.pattern, self.ranks, self.repetition))

    def write_input(self, send: Tensor, recv: Tensor) -> None:
        """This repetition's data where the collective will look for it, and nothing right anywhere else."""
        recv.fill_(float("nan") if recv.is_floating_point() else 113)
        if self.collective.root in {-1, self.ranks.rank}:
            fill(send, sent(self.collective, self.pattern, self.ranks, self.repetition))
            if self.collective.one_buffer and send.data_ptr() != recv.data_ptr():
                recv.copy_(send)

    def cell(self, this: Layout, in_place: bool, cycle: int) -> Cell:
        """Measure one size once, and gather what every rank found."""
        send, recv = self.buffers(this, in_place)
        where = "in place" if in_place else "out of place"
        self.watchdog.step(f"{self.args.collective} of {this.nbytes} bytes, {where}, cycle {cycle}")
        # Data that toggle bits, as in nccl-tests; sums added up in place may grow to infinity, which costs no time.
        self.write_input(send, recv)
        if cycle == 0:
            self.iters[in_place] = self.affordable(send, recv)
            for _ in range(self.args.warmup - 1 if self.iters[in_place] == self.args.iters else 0):
                self.run(send, recv)
        iters = self.iters[in_place]
        spent = self.seconds(send, recv, iters)
        pairs = self.everywhere(spent * 1e6, self.wrong(send, recv, this.nbytes))
        return Cell([time_us for time_us, _ in pairs], [int(count) for _, count in pairs], iters)


def free_memory() -> int | None:
    """Bytes that Linux says can be had without swapping; None where nobody says."""
    meminfo = Path("/proc/meminfo")
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text()) if meminfo.is_file() else None
    return int(found[1]) * 1024 if found else None


def device_of(torch: Any, backend: str, ranks: Ranks) -> Any:
    """The device that this rank works on; raises `Failure` where it has none."""
    if backend == "gloo":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if not torch.cuda.is_available() or not count:
        raise Failure("backend nccl needs a GPU and a PyTorch built for CUDA; use --backend gloo on CPUs")
    if ranks.local >= count > 1:
        raise Failure(f"LOCAL_RANK={ranks.local} has no GPU: {count} are visible on {ranks.node}")
    device = torch.device("cuda", ranks.local if count > 1 else 0)
    torch.cuda.set_device(device)
    return device


# --- what is printed ------------------------------------------------------------------------------------------------

_SIDE = "     time   algbw   busbw  #wrong"
_UNITS = "     (us)  (GB/s)  (GB/s)        "
HEADER = "\n".join(
    (
        "#",
        f"#{'out-of-place':>74}{'in-place':>31}          ",
        f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8}{_SIDE}{_SIDE} ",
        f"#{'(B)':>11}{'(elements)':>14}{'':26}{_UNITS}{_UNITS} ",
    )
)


def figure(value: float, width: int) -> str:
    """As many decimals as fit, two at most (getFloatStr in src/util.cu)."""
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    return f"{value:{width}.{decimals}f}" if digits <= width else f"{value:{width}.1e}"


class Printer:
    """Rank 0's standard output: each line leaves at once, so that a reader sees how far the run has come."""

    def __init__(self, active: bool) -> None:
        self._active, self._last = active, time.monotonic()

    def line(self, text: str) -> None:
        """One line, or several."""
        if self._active:
            print(text, flush=True)
            self._last = time.monotonic()

    def heartbeat(self, text: str) -> None:
        """A comment, only when nothing was said for a while."""
        if time.monotonic() - self._last >= HEARTBEAT_S:
            self.line(f"# {text}")


def cell_figures(cells: Sequence[Cell], nbytes: int, factor: float) -> dict[str, Any] | None:
    """Time, bandwidths and wrong elements, averaged (wrong: summed) over `cells`; None where nothing was measured."""
    if not cells:
        return None
    time_us = sum(cell.time_us for cell in cells) / len(cells)
    algbw = nbytes / 1e3 / time_us  # bytes a µs = MB/s; / 1e3 = GB/s
    return {
        "time_us": round(time_us, 3),
        "algbw": round(algbw, 6),
        "busbw": round(algbw * factor, 6),
        "wrong": sum(sum(cell.wrong) for cell in cells),
        "iters": min(cell.iters for cell in cells),
    }


def table_row(bench: Bench, row: Row) -> str:
    """The row of nccl-tests' table for one size."""
    this, collective = row.layout, bench.collective
    text = f"{this.nbytes:12d}  {this.piece:12d}  {bench.args.dtype:>8s}  {collective.redop:>6s}  {collective.root:6d}"
    for cells in (row.out_of_place, row.in_place):
        values = cell_figures(cells, this.nbytes, collective.factor(bench.ranks.world))
        if values is None:
            text += f"  {'N/A':>7s}  {'N/A':>6s}  {'N/A':>6s}  {'N/A':>6s}"
        else:
            bandwidths = f"{figure(values['algbw'], 6)}  {figure(values['busbw'], 6)}"
            text += f"  {figure(values['time_us'], 7)}  {bandwidths}  {values['wrong']:>6g}"
    return text


def result(bench: Bench, rows: list[Row], people: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, Any]:
    """The final line (schema clusterproof.result/v1): every cycle, every rank, what ran where, what `said` proves."""
    factor = bench.collective.factor(bench.ranks.world)

    def entry(row: Row, cycle: int) -> dict[str, Any]:
        nbytes = row.layout.nbytes
        in_place = cell_figures(row.in_place[cycle : cycle + 1], nbytes, factor)
        out_of_place = cell_figures(row.out_of_place[cycle : cycle + 1], nbytes, factor) or {}
        return {"size": nbytes, **out_of_place, "in_place": in_place}

    by_rank = per_rank(rows, people)
    few = bench.ranks.world <= MOST_RANKS_LISTED
    interface = os.environ.get(f"{bench.backend.upper()}_SOCKET_IFNAME") or None
    return {
        "schema": "clusterproof.result/v1",
        "program": "collectives",
        "collective": bench.args.collective,
        "backend": bench.backend,
        "world_size": bench.ranks.world,
        "nodes": list(dict.fromkeys(person["node"] for person in people)),
        "dtype": bench.args.dtype,
        "iters": bench.args.iters,
        "sizes": [row.layout.nbytes for row in rows],
        "requested_sizes": [row.layout.requested for row in rows],
        "complete": len(rows) == len(bench.layouts),
        "cycles": [{"cycle": cycle, "rows": [entry(row, cycle) for row in rows]} for cycle in range(bench.args.cycles)],
        "per_rank": by_rank if few else [],
        **({} if few else {"per_node": per_node(by_rank)}),
        "versions": versions(bench.torch, bench.backend),
        "transport": {"backend": bench.backend, "interface": interface, **said.get("transport", {})},
        **({"proof": said["proof"]} if "proof" in said else {}),
    }


def per_rank(rows: list[Row], people: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each rank's own mean time at the largest size, and its wrong elements at all sizes."""
    last = rows[-1].out_of_place
    cells = [cell for row in rows for cell in (*row.out_of_place, *row.in_place)]
    return [
        {
            **person,
            "time_us": round(sum(cell.times_us[rank] for cell in last) / len(last), 3),
            "wrong": sum(cell.wrong[rank] for cell in cells),
        }
        for rank, person in enumerate(people)
    ]


def per_node(by_rank: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same for each node: mean time of its ranks, sum of their wrong elements."""
    nodes: dict[str, list[dict[str, Any]]] = {}
    for entry in by_rank:
        nodes.setdefault(entry["node"], []).append(entry)
    return [
        {
            "node": node,
            "ranks": len(mine),
            "time_us": round(sum(entry["time_us"] for entry in mine) / len(mine), 3),
            "wrong": sum(entry["wrong"] for entry in mine),
        }
        for node, mine in nodes.items()
    ]


def versions(torch: Any, backend: str) -> dict[str, str | None]:
    """What the figures depend on; None where it plays no part."""
    nccl = torch.cuda.nccl.version() if backend == "nccl" else ()
    driver = Path("/proc/driver/nvidia/version")
    found = re.search(r"(?:Module|x86_64|aarch64)\s+(\d+\.[\d.]+)", driver.read_text()) if driver.is_file() else None
    return {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, nccl)) or None,
        "cuda": torch.version.cuda,
        "driver": found[1] if found else None,
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def opening(bench: Bench, people: list[dict[str, Any]]) -> str:
    """The comments that nccl-tests prints above its table."""
    args = bench.args
    how_often = f"warmup iters: {args.warmup} iters: {args.iters} agg iters: 1 validation: 1 graph: 0"
    lines = [
        f"# clusterproof collectives.py, PyTorch {bench.torch.__version__}, backend {bench.backend}",
        f"# Collective test starting: {args.collective}_perf",
        f"# nThread 1 nGpus 1 minBytes {args.begin} maxBytes {args.end} step: {args.factor}(factor) {how_often}",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {who['rank']:2d} Group  0 Pid {who['pid']:6d} on {who['node']:>10s} device {who['device']}"
        for who in people
        if bench.ranks.world <= MOST_RANKS_LISTED
    ]
    return "\n".join(lines) + "\n" + HEADER


def closing(bench: Bench, rows: list[Row]) -> str:
    """The comments below it."""
    factor = bench.collective.factor(bench.ranks.world)
    both = [
        values
        for row in rows
        for cells in (row.out_of_place, row.in_place)
        if (values := cell_figures(cells, row.layout.nbytes, factor))
    ]
    wrong = sum(values["wrong"] for values in both)
    return (
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}\n"
        f"# Avg bus bandwidth    : {sum(values['busbw'] for values in both) / len(both):g} \n"
        f"#\n# Collective test concluded: {bench.args.collective}_perf\n#"
    )


# --- one run --------------------------------------------------------------------------------------------------------


def introduce(bench: Bench) -> list[dict[str, Any]]:
    """Who runs where, gathered from every rank."""
    name = "[cpu] CPU"
    if bench.device.type == "cuda":
        properties = bench.torch.cuda.get_device_properties(bench.device)
        address = f"{getattr(properties, 'pci_domain_id', 0):04x}:{getattr(properties, 'pci_bus_id', 0):02x}"
        name = f"[{address}:{getattr(properties, 'pci_device_id', 0):02x}] {properties.name}"
    own = {
        "rank": bench.ranks.rank,
        "node": bench.ranks.node,
        "host": socket.gethostname(),
        "address": own_address(),
        "pid": os.getpid(),
        "device": f"{bench.device.index or 0:2d} {name}",
    }
    people: list[Any] = [None] * bench.ranks.world
    bench.dist.all_gather_object(people, own)
    by_address: dict[str, set[str]] = {}
    for person in people:
        by_address.setdefault(person.pop("address"), set()).add(person["node"])
    bench.watchdog.nodes = {address: min(nodes) for address, nodes in by_address.items() if len(nodes) == 1}
    return people


def own_address() -> str:
    """The address under which this machine reaches the master, which is the one its peers see; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((os.environ["MASTER_ADDR"], 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def measure(bench: Bench, printer: Printer) -> list[Row]:
    """Sweep the sizes; a row is printed as soon as all its cycles are done."""
    rows: list[Row] = []
    for this in bench.layouts:
        if bench.fault.strike(bench.ranks, this.nbytes):
            return rows
        row = Row(this)
        for cycle in range(bench.args.cycles):
            for in_place, cells in ((False, row.out_of_place), (True, row.in_place)):
                if bench.collective.in_place or not in_place:
                    cells.append(bench.cell(this, in_place, cycle))
                    printer.heartbeat(f"{this.nbytes} bytes: cycle {cycle + 1} of {bench.args.cycles}")
        rows.append(row)
        fewest = min(cell.iters for cell in (*row.out_of_place, *row.in_place))
        if fewest < bench.args.iters:
            printer.line(
                f"# {this.nbytes} bytes: {fewest} of {bench.args.iters} iterations fit into {bench.args.limit} s"
            )
        printer.line(table_row(bench, row))
    return rows


def join(args: argparse.Namespace, ranks: Ranks, backend: str, watchdog: Watchdog) -> None:
    """Meet all ranks; raises `Failure` with the address where they did not come."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    watchdog.step(f"rendezvous at {address}")
    device = device_of(torch, backend, ranks)
    try:
        dist.init_process_group(
            backend,
            timeout=timedelta(seconds=args.timeout + (2 * GRACE_S if backend == "nccl" else 0)),
            rank=ranks.rank,
            world_size=ranks.world,
            device_id=device if device.type == "cuda" else None,
        )
    except (RuntimeError, ValueError) as error:
        raise Failure(f"rendezvous of {ranks.world} ranks at {address} failed: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an exception says, without the place and the stack that C++ puts around it and gloo's good wishes."""
    text = re.sub(r"^\[\S+:\d+\] |\s*GLHF!.*", "", str(error).strip().partition("\n")[0])
    return text or type(error).__name__


def certify(args: argparse.Namespace, ranks: Ranks, watchdog: Watchdog, proof: Any | None) -> int:
    """Join, measure, print; the exit code."""
    fault = Fault.parse(os.environ.get("CLUSTERPROOF_FAULT", ""))
    if args.collective == "sendrecv" and ranks.world < 2:
        raise Failure("sendrecv needs at least 2 ranks")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # what C++ logs as errors comes back as an exception as well
    try:
        import torch  # noqa: PLC0415
        import torch.distributed as dist  # noqa: PLC0415
    except ImportError as error:
        raise Failure(f"PyTorch cannot be imported by {sys.executable}: {first_line(error)}") from error
    torch.set_num_threads(1)  # ranks share the machine; gloo has threads of its own
    backend = args.backend if args.backend != "auto" else "nccl" if torch.cuda.is_available() else "gloo"
    join(args, ranks, backend, watchdog)
    bench = Bench(args, ranks, backend, fault, watchdog)
    watchdog.step("gathering who runs where")
    people = introduce(bench)
    bench.allocate(neighbours=sum(who["host"] == socket.gethostname() for who in people))
    if proof and ranks.local == 0:
        interfaces = os.environ.get(f"{backend.upper()}_SOCKET_IFNAME", "").split(",")
        proof.watch(gpus=bench.device.type == "cuda", interfaces=interfaces)
    printer = Printer(active=ranks.rank == 0)
    printer.line(opening(bench, people))
    rows = measure(bench, printer)
    if len(rows) == len(bench.layouts):
        watchdog.step("gathering counters")
        final = result(bench, rows, people, witness(bench, proof))
        printer.line(closing(bench, rows))
        printer.line(f"CLUSTERPROOF-RESULT {json.dumps(final, allow_nan=False, separators=(',', ':'))}")
    watchdog.step("leaving the process group")
    dist.barrier()
    dist.destroy_process_group()
    wrong = any(sum(cell.wrong) for row in rows for cell in (*row.out_of_place, *row.in_place))
    return 1 if wrong and not os.environ.get("CLUSTERPROOF_NODE") else 0


# --- the companion --------------------------------------------------------------------------------------------------


def companion() -> Any | None:
    """`Proof` of proof.py where it lies next to this file; None where it does not."""
    path = Path(__file__).with_name("proof.py")
    spec = importlib.util.spec_from_file_location("clusterproof_proof", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Proof(os.environ)


def witness(bench: Bench, proof: Any | None) -> dict[str, Any]:
    """On rank 0 `transport` and `proof` of all ranks for the result line. All ranks must call it."""
    everyone: list[Any] = [None] * bench.ranks.world
    bench.dist.all_gather_object(everyone, proof.statement(bench.ranks.node) if proof else None)
    if bench.ranks.rank or not proof:
        return {}
    merged: dict[str, Any] = proof.merge([said for said in everyone if said], bench.ranks.world <= MOST_RANKS_LISTED)
    return merged


def complain(what: str, ranks: Ranks | None, watchdog: Watchdog | None = None, mark: str = "ERROR") -> None:
    """Say on both streams what ended this rank, how far it had come, and which peer the message names."""
    known = asdict(ranks) if ranks else {"rank": None, "node": os.environ.get("CLUSTERPROOF_NODE")}
    peer = watchdog.peer_in(what) if watchdog else None
    said = {
        "schema": f"clusterproof.{mark.lower()}/v1",
        "rank": known["rank"],
        "node": known["node"],
        "step": watchdog.steps if watchdog else 0,
        "what": what,
        **({"peer": peer} if peer else {}),
    }
    who = f"rank {known['rank']} on {known['node']}: " if ranks else ""
    sys.stderr.write(f"collectives.py: {who}{what}\n")
    sys.stderr.flush()
    sys.stdout.write(f"CLUSTERPROOF-{mark} {json.dumps(said)}\n")
    sys.stdout.flush()


def main(argv: Sequence[str]) -> int:
    """Run one rank; the exit code."""
    ranks: Ranks | None = None
    watchdog: Watchdog | None = None
    proof = companion()

    def give_up(what: str, code: int) -> None:
        if proof:
            proof.close()
        complain(what, ranks, watchdog, "ERROR" if code == 1 else "ENDED")
        os._exit(code)

    try:
        args = arguments(argv)
        ranks = ranks_from(os.environ)
        watchdog = Watchdog(args.timeout + GRACE_S, give_up)
        watchdog.tick = proof.relay if proof else watchdog.tick
        return certify(args, ranks, watchdog, proof)
    except Failure as failure:
        what = str(failure)
    except Exception as error:  # whatever a library raises becomes a sentence, never a traceback
        what = f"{watchdog.current if watchdog else 'start'}: {type(error).__name__}: {first_line(error)}"
    give_up(what, 1)
    return 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # After a failure threads of the libraries may wait for peers for ever: leave without asking them.
    os._exit(code)
