"""Watches the ranks of one run until they have ended or must be ended; one thread, no locks.

Output, exits, limits and the stop flag are looked at in one loop, because each can decide the run and the first one
does. Ending ranks asks first (SIGTERM: our programs then say what they were doing) and insists after a moment.
"""

from __future__ import annotations

import re
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from cluster.local import endings
from cluster.local.rank import Rank
from cluster.model import RankExit, RunState, Workload
from cluster.protocol import Progress, Stop

POLL_S = 0.05
"""How soon an exit, a limit or a stop is noticed; output and ends of output wake us at once."""
FAILURE_GRACE_S = 3.0
"""After the first rank failed, how long the others may take to say what they saw."""
TERM_GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""
KILL_LIMIT_S = 5.0
"""How long a killed process may take to vanish before it is reported as left over."""

_ROW = re.compile(rb"^\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s", re.MULTILINE)


class Supervisor:
    """One run's ranks, what they printed, and how they end."""

    def __init__(
        self, workload: Workload, stop: Stop, progress: Progress, closed: Callable[[], bool] = lambda: False
    ) -> None:
        self._workload, self._stop, self._progress, self._closed = workload, stop, progress, closed
        self._selector = selectors.DefaultSelector()
        self._ranks: list[Rank] = []
        self._torn: dict[int, bytearray] = {}
        self._begin = time.monotonic()
        self._spoke: float | None = None
        self._failed_at: float | None = None
        self._ours: set[int] = set()
        self.log = bytearray()
        """What the ranks of the first node printed, whole lines in the order in which they came."""
        self.leftovers: list[str] = []
        self.starting_s = 0.0
        """From launch to the leader's first output."""

    @property
    def seconds(self) -> float:
        """Since the launch."""
        return time.monotonic() - self._begin

    def add(self, rank: Rank) -> None:
        """Watch this rank too."""
        self._ranks.append(rank)
        self._selector.register(rank.output, selectors.EVENT_READ, rank)

    def watch(self) -> tuple[RunState, str]:
        """Until all have ended or must end; then none is running. State and message."""
        while True:
            self._read(POLL_S)
            self._notice()
            running = sum(rank.code is None for rank in self._ranks)
            decided = self._ended_by_themselves() if not running else self._must_end()
            if decided:
                state, message = decided
                self.end()
                return state, self._with_names(state, message)

    def end(self) -> None:
        """End what still runs, keep what it says on the way, give everything back."""
        self._ours = {rank.rank for rank in self._ranks if rank.code is None}
        for number, limit in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, KILL_LIMIT_S)):
            for rank in self._ranks:
                if rank.code is None:
                    rank.signal(number)
            deadline = time.monotonic() + limit
            while any(rank.code is None for rank in self._ranks) and time.monotonic() < deadline:
                self._read(POLL_S)
                self._notice()
        self.leftovers = [
            f"process {rank.pid} (rank {rank.rank} on {rank.node}) did not end"
            for rank in self._ranks
            if rank.code is None
        ]
        self._flush()
        for rank in self._ranks:
            rank.close()
        self._selector.close()

    def exits(self) -> tuple[RankExit, ...]:
        """How each rank ended, in rank order; of those that we ended, which were behind."""
        exits = [self._exit(rank) for rank in self._ranks]
        slow = {exit_.rank for exit_ in endings.behind(exits)}
        return tuple(
            replace(exit_, reason=exit_.reason.replace(endings.ENDED_BY_US, endings.BEHIND, 1))
            if exit_.rank in slow
            else exit_
            for exit_ in exits
        )

    def tails(self) -> dict[str, str]:
        """Node → the last lines of its ranks that did not end well."""
        tails: dict[str, str] = {}
        for rank in self._ranks:
            if rank.rank in self._ours or rank.code:
                tails[rank.node] = "\n".join(filter(None, (tails.get(rank.node), rank.last_lines())))
        return tails

    # -- looking ---------------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            self._take(key.data)

    def _take(self, rank: Rank) -> bool:
        """Read once; False when there is nothing (more)."""
        data = rank.read()
        if data is None:
            self._selector.unregister(rank.output)
        if not data:
            return False
        if rank.node == self._workload.nodes[0]:
            self._keep(rank.rank, data)
        if rank.rank == 0:
            self._leader_spoke(data)
        return True

    def _keep(self, rank: int, data: bytes) -> None:
        torn = self._torn.setdefault(rank, bytearray())
        torn += data
        whole = torn.rfind(b"\n") + 1
        self.log += torn[:whole]
        del torn[:whole]

    def _flush(self) -> None:
        for rank in sorted(self._torn):
            self.log += self._torn[rank]
        self._torn.clear()

    def _leader_spoke(self, data: bytes) -> None:
        if self._spoke is None:
            self.starting_s = self.seconds
            running = sum(rank.code is None for rank in self._ranks)
            self._progress(f"running {running}/{len(self._ranks)}")
        self._spoke = time.monotonic()
        if rows := _ROW.findall(data):
            nbytes, busbw = rows[-1]
            self._progress(f"busbw {busbw.decode()} GB/s at {int(nbytes)} bytes")

    def _notice(self) -> None:
        """Take the codes of ranks that have ended since the last look.

        Looked for twice: a rank that dies of another's death may be seen before it, but not found before it twice.
        """
        found: list[Rank] = []
        for _ in range(2):
            found += [rank for rank in self._ranks if rank.code is None and rank not in found and rank.has_ended()]
            if not found:
                return
        for rank in found:
            while rank.output in self._registered() and self._take(rank):
                pass
            rank.code = rank.reap()
        failed = endings.order(rank for rank in found if rank.code)
        for place, rank in enumerate([*(rank for rank in found if not rank.code), *failed]):
            rank.at = self.seconds + place * 1e-6  # the order in which they ended, as far as it can be known
        if failed and self._failed_at is None:
            self._failed_at = time.monotonic()

    def _registered(self) -> set[object]:
        return {key.fileobj for key in self._selector.get_map().values()}

    # -- deciding --------------------------------------------------------------------------------------------------

    def _ended_by_themselves(self) -> tuple[RunState, str]:
        return (RunState.SUCCEEDED, "") if self._failed_at is None else (RunState.FAILED, "")

    def _must_end(self) -> tuple[RunState, str] | None:
        """Why the ranks that still run must end now, if they must."""
        now = time.monotonic()
        workload = self._workload
        silent = now - (self._begin if self._spoke is None else self._spoke)
        limit = workload.start_limit_s if self._spoke is None else workload.stall_limit_s
        since_failure = 0.0 if self._failed_at is None else now - self._failed_at
        what = "no output at all" if self._spoke is None else "no new output"
        rules = (
            (bool(self._stop), RunState.CANCELLED, self._stop.reason),
            (self._closed(), RunState.CANCELLED, "the cluster was closed"),
            (since_failure > FAILURE_GRACE_S, RunState.FAILED, ""),
            (now - self._begin > workload.time_limit_s, RunState.TIMED_OUT, f"not done in {workload.time_limit_s:g} s"),
            (silent > limit and self._failed_at is None, RunState.STALLED, f"{what} for {limit:g} s"),
        )
        return next(((state, message) for applies, state, message in rules if applies), None)

    def _with_names(self, state: RunState, message: str) -> str:
        """The message, with the rank that the ends of the ranks point at."""
        exits = self.exits()
        culprit = endings.first(exits) if state is RunState.FAILED else None
        late = endings.late(exits) if state in {RunState.FAILED, RunState.STALLED, RunState.TIMED_OUT} else ""
        return "; ".join(filter(None, (message, endings.headline(culprit) if culprit else "", late)))

    def _exit(self, rank: Rank) -> RankExit:
        tail = rank.last_lines()
        if rank.rank in self._ours or rank.code is None:
            doing = endings.complaint(tail).get("what")
            words = f"{endings.ENDED_BY_US}; {doing}" if doing else endings.ENDED_BY_US
            return RankExit(rank.rank, rank.node, None, words, tail, rank.at or self.seconds)
        return RankExit(rank.rank, rank.node, rank.code, endings.reason(rank.code, tail), tail, rank.at)
