"""Breaks nodes and links of a test cluster: one small interface, one implementation (the envtest tool)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Driver:
    """`PROGRAM:DIRECTORY` of the tool that runs the cluster."""

    program: str
    directory: str

    @classmethod
    def from_environment(cls) -> Driver | None:
        program, _, directory = os.environ.get("CLUSTERPROOF_TEST_DRIVER", "").partition(":")
        return cls(program, directory) if directory else None

    def _do(self, verb: str, *arguments: str) -> None:
        subprocess.run([sys.executable, self.program, verb, "--dir", self.directory, *arguments], check=True)

    @contextmanager
    def rate(self, what: str, slow: str, normal: str) -> Iterator[None]:
        """A node's link or a leaf's uplink at another speed."""
        self._do("link", what, slow)
        try:
            yield
        finally:
            self._do("link", what, normal)

    @contextmanager
    def blocked(self, one: str, other: str) -> Iterator[None]:
        """Nothing passes between two nodes."""
        self._do("block", one, other)
        try:
            yield
        finally:
            self._do("unblock", one, other)

    def stop(self, node: str) -> None:
        """The node dies: kubelet, runtime and pods."""
        self._do("stop-node", node)

    def start(self, node: str) -> None:
        """It comes back."""
        self._do("start-node", node)
