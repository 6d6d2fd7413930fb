"""Random draws that depend on what is run and never on when: seed, entry, the set of nodes, the attempt.

Threads and worker processes may take runs in any order, and a group named in another order is the same group, so each
purpose of each run gets a generator of its own, seeded by a hash. Python's own `hash` changes from process to process;
SHA-256 does not.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable


class Chance:
    """The draws of one run."""

    def __init__(self, seed: int, entry: str, nodes: Iterable[str], attempt: int) -> None:
        key = "\n".join((str(seed), entry, str(attempt), *sorted(nodes)))
        self._key = hashlib.sha256(key.encode()).digest()

    def of(self, purpose: str) -> random.Random:
        """A generator for one purpose, the same whenever it is asked for."""
        digest = hashlib.sha256(self._key + purpose.encode()).digest()
        return random.Random(int.from_bytes(digest[:8], "big"))
