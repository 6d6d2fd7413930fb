"""One rank as a process: started so that it cannot outlive us, read without blocking, ended with all its children.

Each rank leads a session and a process group of its own. Its group is signalled only while the rank has not been
reaped, for then nobody else can have got its number.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

TAIL_BYTES = 8192
"""What is kept of the end of a rank's output."""

# Linux sends SIGKILL to the rank when the thread that started it ends, however it ends; the second line covers the
# moment before that was asked for. A `preexec_fn` would do it too, but not safely in a process with threads.
GUARD = """\
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Rank:
    """A running rank. Must be ended (`end`) by the thread that made it."""

    def __init__(self, rank: int, node: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start it; raises OSError where that is not possible."""
        self.rank = rank
        self.node = node
        self.tail = bytearray()
        self.code: int | None = None
        """Its own exit code, once it ended by itself."""
        self.at = 0.0
        """Seconds since the start of the run when that was seen."""
        guard = [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), *command]
        self._process = subprocess.Popen(
            guard,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self._process.stdout is None:  # cannot be: we asked for a pipe
            raise OSError("no pipe to the rank's output")
        self.output = self._process.stdout
        os.set_blocking(self.output.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id, which is the id of its group too."""
        return self._process.pid

    def read(self) -> bytes | None:
        """What it printed since the last call; None after the end of its output."""
        try:
            data = os.read(self.output.fileno(), 1 << 16)
        except BlockingIOError:
            return b""
        self.tail += data
        del self.tail[:-TAIL_BYTES]
        return data or None

    def has_ended(self) -> bool:
        """Whether it has ended, without reaping it."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the rank and its children."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for zombies
                os.killpg(self.pid, number)

    def reap(self) -> int:
        """Kill what its group still holds, and take its exit code. Only after `has_ended`."""
        self.signal(signal.SIGKILL)
        return self._process.wait()

    def last_lines(self, limit: int = 20) -> str:
        """The end of its output as text."""
        return "\n".join(self.tail.decode(errors="replace").splitlines()[-limit:])

    def close(self) -> None:
        """Give the pipe back."""
        self.output.close()
