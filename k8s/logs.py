"""Logs of pods: the leader's followed while it runs, for progress and signs of life; the verdict's read once, whole.

A followed log is never evidence of completeness: it drops silently, stalls, and rotates away. So following only moves
a clock and a progress line (and keeps what came, for the case that the node dies), and at the end the complete log is
read in one call and compared with length and hash in the pod's termination message.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from k8s import names
from k8s.connection import BrokenError, Request
from k8s.gateway import ApiError, Gateway, GoneError
from k8s.manifests import CONTAINER
from k8s.pods import Pod

LOG_LIMIT = 64 << 20
TAIL_LINES = 60
TAIL_LIMIT = 32 << 10
MOST_TAILS = 32
UNREACHABLE = re.compile(
    r"dial tcp|no route to host|connection refused|i/o timeout|proxy error|http2: client connection"
)
"""What the API server says when the node's kubelet does not answer it."""

ROW = re.compile(rb"^\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
"""A row of nccl-tests: size, count, type, redop, root, time, algbw, busbw."""


class Follower:
    """Follows one pod's log in a thread of its own."""

    def __init__(self, gateway: Gateway, namespace: str, pod: str, silence_s: float) -> None:
        self._gateway, self._path, self._silence_s = gateway, names.core(namespace, "pods", f"{pod}/log"), silence_s
        self._closed = threading.Event()
        self.last = time.monotonic()
        """When the last output came, monotonic."""
        self.note = ""
        """The newest bandwidth, as a progress line."""
        self.text = bytearray()
        self._thread = threading.Thread(target=self._for_ever, name=f"log {pod}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; the thread ends with its stream."""
        self._closed.set()

    def _for_ever(self) -> None:
        pause = 1.5
        first = True
        while not self._closed.is_set():
            query: list[tuple[str, str | int]] = [("container", CONTAINER), ("follow", "true")]
            if not first:
                query.append(("sinceSeconds", max(1, math.ceil(time.monotonic() - self.last))))
            began = time.monotonic()
            try:
                for piece in self._gateway.stream(self._path, query, read_s=self._silence_s):
                    first = False
                    self._take(piece)
                    if self._closed.is_set():
                        return
            except (BrokenError, ApiError, GoneError):
                pass
            # A stream that ends at once most likely belongs to a container that has ended.
            pause = 1.5 if time.monotonic() - began > 30 else min(15.0, pause * 2)
            if self._gateway.wait(0) or self._closed.wait(pause):
                return

    def _take(self, piece: bytes) -> None:
        self.last = time.monotonic()
        if len(self.text) < LOG_LIMIT:
            self.text += piece
        for line in piece.splitlines():
            row = ROW.match(line)
            if row:
                self.note = f"busbw {float(row[4]):.4g} GB/s at {size_words(int(row[1]))}"


def size_words(size: int) -> str:
    """`8G` for 8 x 2^30 bytes."""
    for power, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << power:
            return f"{size / (1 << power):g}{letter}"
    return f"{size}B"


def whole(gateway: Gateway, namespace: str, pod: Pod) -> tuple[bytes, str]:
    """The complete log and, in words, what is missing from it; empty words for nothing."""
    path = names.core(namespace, "pods", f"{pod.name}/log")
    query = (("container", CONTAINER), ("limitBytes", LOG_LIMIT))
    digest = pod.digest()
    data = gateway.call(Request("GET", path, query), patience_s=10, read_s=60)
    if "sha256" not in digest or hashlib.sha256(data).hexdigest() == digest["sha256"]:
        return data, ""
    # The kubelet may not have written the last lines yet.
    gateway.wait(1)
    data = gateway.call(Request("GET", path, query), patience_s=10, read_s=60)
    if hashlib.sha256(data).hexdigest() == digest["sha256"]:
        return data, ""
    return data, f"the log of {pod.name} is not complete: {len(data)} of {digest.get('bytes')} bytes"


def tails(gateway: Gateway, namespace: str, pods: list[Pod]) -> tuple[dict[str, str], dict[str, str]]:
    """Last lines of these pods by node, read side by side; and the nodes whose kubelet does not answer, with words."""
    texts: dict[str, str] = {}
    dead: dict[str, str] = {}

    def read(pod: Pod) -> None:
        query = (("container", CONTAINER), ("tailLines", TAIL_LINES), ("limitBytes", TAIL_LIMIT))
        request = Request("GET", names.core(namespace, "pods", f"{pod.name}/log"), query)
        try:
            texts[pod.node] = gateway.call(request, read_s=10, patience_s=5).decode(errors="replace")
        except ApiError as error:
            if error.status >= 500 and UNREACHABLE.search(error.message):
                dead[pod.node] = error.message

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, pods[:MOST_TAILS]))
    return texts, dead
