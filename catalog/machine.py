"""A cloud's machine type and the NICs of its accelerator fabric: a Node object names the type, never the line rate."""

from __future__ import annotations

import fnmatch

from pydantic import Field

from catalog.checking import Strict


class Machine(Strict):
    """One machine type, or a family by pattern."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    platform: str
    types: tuple[str, ...] = Field(min_length=1)
    """Shell patterns over `node.kubernetes.io/instance-type`, letter case aside."""
    rails: int = Field(ge=1)
    gbps: float = Field(gt=0)
    """Line rate of one NIC, Gb/s."""
    source: str = Field(min_length=3)

    def matches(self, platform: str, instance_type: str) -> bool:
        """Whether a node of that platform and type is one."""
        return platform == self.platform and any(
            fnmatch.fnmatchcase(instance_type.lower(), pattern.lower()) for pattern in self.types
        )
