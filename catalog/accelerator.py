"""An accelerator product: how a node label names it, what its node is made of, what a healthy one was seen to do."""

from __future__ import annotations

import fnmatch
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from catalog.checking import Strict
from catalog.errors import CatalogError
from catalog.units import Size
from catalog.words import Algorithm, Collective, Kind, Layer


class FigureRow(Strict):
    """One figure with everything that makes it usable: unit, conditions, source, date and kind."""

    metric: str = "busBandwidthGBps"
    unit: str = "GB/s"
    value: float = Field(gt=0, allow_inf_nan=False)
    collective: Collective | None = None
    layer: Layer
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(ge=1)
    size: Size | None = None
    """Bytes of the message the figure was taken at; None = not a message."""
    rails: int = Field(default=0, ge=0)
    """NICs a node; 0 where the figure has nothing to do with NICs."""
    gbps: float = Field(default=0.0, ge=0)
    """Line rate of one NIC, Gb/s."""
    algorithm: Algorithm = "any"
    nvlink_domain: int = Field(default=1, ge=1)
    """Nodes in one NVLink domain, where the figure spans several with multi-node NVLink on; else 1."""
    advisory: bool = False
    """Shown, never an expectation: another algorithm than a ring at two nodes, an untuned or contradictory figure."""
    precision: str = ""
    """Of a GEMM: bf16, fp8 …"""
    kind: Kind
    conditions: str = Field(min_length=3)
    source: str = Field(min_length=3)
    date: Annotated[str, BeforeValidator(str)] = Field(min_length=4)
    """When it was measured or, where the source is undated, when it was read."""
    formula: str = ""
    """How a derived or provisional figure comes about."""

    @model_validator(mode="after")
    def _complete(self) -> FigureRow:
        if self.layer == "fabric" and not (self.rails and self.gbps):
            raise CatalogError("expected rails and gbps with a figure of layer fabric")
        if self.kind in {"derived", "provisional"} and not self.formula:
            raise CatalogError(f"expected a formula with a {self.kind} figure")
        if self.collective and not self.size:
            raise CatalogError("expected the message size of a collective's figure")
        return self


class Accelerator(Strict):
    """A product and its node. Rates: `Gbps` in the key means Gb/s (10^9 bits), `GBps` GB/s (10^9 bytes)."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    products: tuple[str, ...] = Field(min_length=1)
    """Shell patterns over the GPU label, letter case aside; the longest that matches decides between products."""
    vendor: Literal["nvidia", "amd"]
    gpus_per_node: int = Field(ge=1)
    rails: int = Field(default=0, ge=0)
    """NICs of the accelerator fabric in the usual node; 0 = there is no usual node, the inventory must say."""
    gbps: float = Field(default=0.0, ge=0)
    """Line rate of one NIC, Gb/s."""
    nvlink_domain: int = Field(default=1, ge=1)
    """Nodes in one NVLink domain."""
    nvlink_gbps: float = Field(default=0.0, ge=0)
    """NVLink (xGMI) rate of one GPU in one direction, Gb/s; 0 = none."""
    pcie_gbps: float = Field(default=0.0, ge=0)
    """Rate of the GPU's host link in one direction, Gb/s."""
    hbm_gbytes_per_s: float = Field(default=0.0, ge=0, alias="hbmGBps")
    """Memory bandwidth by specification, GB/s."""
    bf16_tflops: float = Field(default=0.0, ge=0, alias="bf16TFLOPs")
    """Dense BF16 by specification, TFLOP/s."""
    fp8_tflops: float = Field(default=0.0, ge=0, alias="fp8TFLOPs")
    figures: tuple[FigureRow, ...] = ()

    @property
    def scale_up_gbytes_per_s(self) -> float:
        """One GPU's rate to its peers in the node, one direction, GB/s: NVLink where it has one, else its host link."""
        return (self.nvlink_gbps or self.pcie_gbps) / 8

    def match(self, product: str) -> int:
        """Length of the longest pattern that matches `product`; 0 when none does."""
        text = product.strip().upper().replace(" ", "-")
        hits = (len(pattern) for pattern in self.products if fnmatch.fnmatchcase(text, pattern.upper()))
        return max(hits, default=0)
