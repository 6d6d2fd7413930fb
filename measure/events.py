"""Messages of drivers, kernels, launchers and PyTorch's watchdog as typed events; every line is looked at for them.

An event says what was printed, of which device, host and rank: it accuses nobody. What an Xid number means, and which
ones are the application's own fault, the judgement knows.
"""

from __future__ import annotations

import re
from typing import Final

from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.model import LogEvent

_PCI: Final = r"(?P<device>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
_MLX5: Final = (
    rf"mlx5_core {_PCI}[ :]+(?:\w+: )?(?P<what>(?:Link (?:down|up)|Port module event|.*health (?:compromised|poll)"
    r"|.*[Hh]igh [Tt]emp|.*cable (?:error|unplugged)).*)$"
)
_MPIRUN: Final = (
    r"process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) (?P<what>exited on signal (?P<code>\d+).*)$"
)
_SRUN: Final = (
    r"srun: error: (?P<host>[\w.-]+): tasks? (?P<rank>\d+)[^:]*: "
    r"(?P<what>(?:Exited|Killed|Segm|Terminated|Out Of Memory|Abort).*)$"
)
_PATTERNS: Final = (
    ("xid", "NVRM: Xid", rf"NVRM: Xid \((?:PCI:)?{_PCI}\): (?P<code>\d+)(?:, (?P<what>.*))?$"),
    ("sxid", "SXid", rf"SXid \((?:PCI:)?{_PCI}\): (?P<code>\d+),? ?(?P<what>.*)$"),
    ("gpu-lost", "fallen off the bus", rf"(?:GPU {_PCI}.*)?(?P<what>(?:GPU has )?fallen off the bus.*)$"),
    ("gpu-lost", "GPU is lost", rf"(?:GPU ?{_PCI}.*)?(?P<what>GPU is lost.*)$"),
    ("gpu-init", "RmInitAdapter failed", rf"(?:GPU {_PCI}: )?(?P<what>RmInitAdapter failed.*)$"),
    ("pcie", "AER: ", rf"(?P<what>AER: (?:Multiple )?(?:Uncorrected|Corrected|Uncorrectable|Correctable).*?{_PCI}?)$"),
    ("pcie", "PCIe Bus Error", rf"(?:{_PCI}: )?(?P<what>PCIe Bus Error: .*)$"),
    ("ib", "async", r"(?P<what>NET/IB : (?P<device>\w+:\d+) (?:Got )?(?:(?:non-)?fatal )?async (?:\w+ )?event.*)$"),
    ("gpu-reset", "amdgpu", rf"amdgpu {_PCI}: (?:amdgpu: )?(?P<what>(?:GPU reset|ring \S+ timeout|.*uncorrect).*)$"),
    ("ib", "mlx5_core", _MLX5),
    ("ib", "IBV_EVENT", r"(?P<what>IBV_EVENT_\w+.*)$"),
    ("ib", "Link is Down", r"(?P<device>ib\w+|mlx5_\w+).*?(?P<what>Link is Down.*)$"),
    ("oom", "Out of memory: ", r"(?P<what>Out of memory: Kill(?:ed)? process .*)$"),
    ("oom", "oom-kill:", r"(?P<what>oom-kill:.*)$"),
    ("cuda-oom", "CUDA out of memory", r"(?P<what>CUDA out of memory.*)$"),
    ("rank-exit", "exited on signal", _MPIRUN),
    ("rank-exit", "srun: error:", _SRUN),
    ("rank-exit", "(exitcode:", r"(?P<what>failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+.*)$"),
    ("job", "CANCELLED AT", r"(?P<what>\*\*\* (?:STEP|JOB) .* CANCELLED AT .*)$"),
    ("job", "DUE TO", r"(?P<what>(?:STEP|JOB) .* DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION).*)$"),
)  # fmt: skip
"""Kind, a mark that is cheap to look for, and the pattern with what it names."""
_COMPILED: Final = tuple((kind, mark, re.compile(pattern)) for kind, mark, pattern in _PATTERNS)
_MARKS: Final = re.compile("|".join(sorted({re.escape(mark) for _, mark, _ in _PATTERNS})))
_WRITER = re.compile(r"^\w{3} +\d+ [\d:]{8} ([\w.-]+) kernel:|(?:^|\s)([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] ")
"""The host in front of a kernel's message, or of one of NCCL's."""
_LAST_GPU = re.compile(rf"The NVIDIA GPU {_PCI}")
_WATCHDOG = re.compile(r"Watchdog caught collective operation timeout:\s*(.*)$")
_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+).*?ran for (\d+) milliseconds")
_RANK = re.compile(r"\[[Rr]ank ?(\d+)\]|\[PG[^\]]* Rank (\d+)\]")
_ROOT_FACTS: Final = ("host", "rank", "exitcode")
_ROOT_FACT = re.compile(rf"^\W*({'|'.join(_ROOT_FACTS)})\s*: (\S+)")
_ROOT_LINES: Final = 12
_ENDED: Final = {"CANCELLED": "CANCELLED", "TIME LIMIT": "TIMEOUT", "NODE FAILURE": "NODE_FAIL", "PREEMPT": "PREEMPTED"}
_MAX_WATCHDOG: Final = 2000


class Events:
    """Reader of events; a line it takes may hold something for other readers too."""

    marks = (
        "Root Cause (first",
        "WorkNCCL(",
        "Watchdog caught",
        "The NVIDIA GPU ",
        *dict.fromkeys(mark for _, mark, _ in _PATTERNS),
    )

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._watchdog: dict[tuple[int | None, int, int], None] = {}
        self._waiting: dict[str, int | None] = {}
        self._gpu: str | None = None
        self._root: dict[str, str] = {}
        self._root_left = 0
        self._kernel = False

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if self._root_left:
            self._root_cause(body)
        if "Root Cause (first observed failure)" in body:
            self._root, self._root_left = {}, _ROOT_LINES
            self._draft.hold("torchrun", waiting=True)
            return FACT
        if "WorkNCCL(" in body or "Watchdog caught" in body:
            return self._timeout(line)
        if "The NVIDIA GPU " in body and (match := _LAST_GPU.search(body)):
            self._gpu = match.group("device")
            return FACT
        if not _MARKS.search(body):
            return PASS
        for kind, mark, pattern in _COMPILED:
            if mark in body and (match := pattern.search(body)):
                self._event(kind, body, match.groupdict())
                return FACT
        return PASS

    def _root_cause(self, body: str) -> None:
        """The block in which torchrun names the rank that failed first, one fact a line."""
        self._root_left -= 1
        if match := _ROOT_FACT.search(body):
            self._root[match.group(1)] = match.group(2)
        if len(self._root) < len(_ROOT_FACTS) and self._root_left:
            return
        self._root_left = 0
        self._draft.hold("torchrun", waiting=False)
        if "rank" in self._root:
            code = self._root.get("exitcode", "")
            self._draft.event(
                LogEvent(
                    kind="rank-exit",
                    what="first observed failure",
                    code=int(code) if code.lstrip("-").isdigit() else None,
                    host=self._root.get("host"),
                    rank=int(self._root["rank"]) if self._root["rank"].isdigit() else None,
                )
            )

    def _event(self, kind: str, body: str, found: dict[str, str | None]) -> None:
        writer = _WRITER.search(body)
        device = found.get("device")
        if kind == "gpu-lost" and device is None:
            # The kernel names the GPU two lines before it says what became of it.
            device = self._gpu
        code, rank = found.get("code"), found.get("rank")
        what = (found.get("what") or kind).strip()
        self._draft.event(
            LogEvent(
                kind=kind,
                what=what,
                code=int(code) if code else None,
                device=device,
                host=found.get("host") or (writer.group(1) or writer.group(2) if writer else None),
                rank=int(rank) if rank else None,
            )
        )
        if kind == "job":
            self._draft.details["ended"] = next((word for mark, word in _ENDED.items() if mark in what), "ENDED")
        self._kernel = self._kernel or kind not in {"job", "rank-exit", "cuda-oom"}

    def _timeout(self, line: Line) -> int:
        """PyTorch's watchdog; its message may be broken into two lines."""
        start = _WATCHDOG.search(line.body)
        named = _RANK.search(line.body) or _RANK.search(line.source)
        rank = int(named.group(1) or named.group(2)) if named else None
        work = _WORK.search(start.group(1) if start else line.body)
        if start and not work:
            self._waiting[line.source] = rank
            self._draft.hold("events", waiting=True)
            return FACT
        self._draft.hold("events", waiting=False)
        waiting = self._waiting.pop(line.source, None) if line.source in self._waiting else self._any_waiting()
        if work and (start or waiting is not None):
            sequence, operation, took = int(work.group(1)), work.group(2), int(work.group(3))
            who = rank if start else waiting
            if len(self._watchdog) < _MAX_WATCHDOG:
                self._watchdog.setdefault((who, sequence, took))
            what = f"Watchdog caught collective operation timeout: {operation}, SeqNum {sequence}, after {took} ms"
            self._draft.event(LogEvent(kind="watchdog", what=what, code=sequence, rank=who))
            return FACT
        return PASS

    def _any_waiting(self) -> int | None:
        """The second half of a broken message carries no tag of its writer."""
        if not self._waiting:
            return None
        source = next(reversed(self._waiting))
        return self._waiting.pop(source)

    def finish(self) -> None:
        """Name a log that holds nothing but kernel messages; list the watchdog's timeouts."""
        if self._watchdog:
            self._draft.details["watchdog"] = [
                {"rank": rank, "seq": sequence, "ms": took} for rank, sequence, took in self._watchdog
            ]
        if not self._draft.formats and self._draft.events:
            self._draft.formats.append("kernel" if self._kernel else "messages")
