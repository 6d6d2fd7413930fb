"""The network that a platform's accelerators are expected to use.

NCCL falls back to TCP sockets without a word when its plugin or devices are missing, and then runs a hundred times
slower. What counts as the right network differs by cloud and product, so it is data.
"""

from __future__ import annotations

import fnmatch

from pydantic import Field

from catalog.checking import Strict


class ExpectedNetwork(Strict):
    """Networks that are right for some accelerators of a platform."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    platform: str
    accelerators: tuple[str, ...] = Field(min_length=1)
    """Names of accelerators."""
    networks: tuple[str, ...] = Field(min_length=1)
    """Shell patterns over NCCL's name of the network (`Using network …`), letter case aside."""
    note: str = ""
    source: str = Field(min_length=3)

    def allows(self, network: str) -> bool:
        """Whether `network` is one of them."""
        return any(fnmatch.fnmatchcase(network.lower(), pattern.lower()) for pattern in self.networks)
