"""A reference profile: published or measured figures of one fabric class, each row with its conditions and source.

Keyed by what decides bandwidth (NICs x line rate, NVLink domain, transport), not by the GPU's name alone: the same
H100 behind 8x200 and 8x400 Gb/s are two classes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from catalog.accelerator import FigureRow
from catalog.checking import Strict
from catalog.errors import CatalogError


class Profile(Strict):
    """Figures of one fabric class. Rows of layer `fabric` take the profile's NICs where they name none."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    description: str = ""
    accelerators: tuple[str, ...] = Field(min_length=1)
    platforms: tuple[str, ...] = ()
    """Platforms it speaks of; empty = any."""
    rails: int = Field(default=0, ge=0)
    gbps: float = Field(default=0.0, ge=0)
    nvlink_domain: int = Field(default=1, ge=1)
    """Nodes in one NVLink domain of the product."""
    transport: str = Field(min_length=2)
    """InfiniBand, RoCE, EFA, TCPXO, none …"""
    program: str = "nccl-tests"
    """What printed the figures: nccl-tests, rccl-tests, a torch program …"""
    confidence: Literal["high", "medium", "low"] = "low"
    rows: tuple[FigureRow, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _rows_take_the_nics(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("rows"), list | tuple):
            return data
        nics = {key: data[key] for key in ("rails", "gbps") if key in data}
        rows = [
            {**nics, **row} if isinstance(row, dict) and row.get("layer") == "fabric" else row for row in data["rows"]
        ]
        return {**data, "rows": rows}

    @model_validator(mode="after")
    def _one_class(self) -> Profile:
        other = [row for row in self.rows if row.layer == "fabric" and (row.rails, row.gbps) != (self.rails, self.gbps)]
        if other:
            raise CatalogError(
                f"expected rows of one fabric class ({self.rails}x{self.gbps:g} Gb/s), found "
                f"{other[0].rails}x{other[0].gbps:g}; write a profile for it"
            )
        return self

    def speaks_of(self, accelerator: str, platform: str, layer: str, rails: int, gbps: float) -> bool:
        """Whether the profile is of this product, platform and, where traffic goes over NICs, this fabric class."""
        return (
            accelerator in self.accelerators
            and (not self.platforms or platform in self.platforms)
            and (layer != "fabric" or (self.rails, self.gbps) == (rails, gbps))
        )
