"""The catalog in words, for `--catalog-list`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from catalog.accelerator import Accelerator
from catalog.entry import Entry, Option
from catalog.units import format_size

if TYPE_CHECKING:
    from catalog.loading import Catalog


def describe(catalog: Catalog) -> str:
    """Entries by domain with their options, then accelerators, then profiles, with where each came from."""
    return "\n".join(_lines(catalog)) + "\n"


def _lines(catalog: Catalog) -> Iterator[str]:
    domains: dict[str, list[Entry]] = {}
    for entry in catalog.entries.values():
        domains.setdefault(entry.domain, []).append(entry)
    for domain, entries in domains.items():
        yield f"{domain} (pytest -m {domain})"
        for entry in entries:
            yield from _entry(entry, catalog.origins)
        yield ""
    yield "accelerators"
    for accelerator in catalog.accelerators.values():
        yield f"  {accelerator.name:<12} {_accelerator(accelerator)}"
    yield ""
    yield "profiles (docs/profiles.md)"
    for profile in catalog.profiles.values():
        rows = f"{len(profile.rows)} figures, confidence {profile.confidence}"
        yield f"  {profile.name:<20} {rows}: {profile.description}"


def _entry(entry: Entry, origins: Mapping[str, str]) -> Iterator[str]:
    most = entry.max_nodes or "all"
    yield f"  {entry.name}"
    yield f"      {entry.description}"
    layers = ", ".join(entry.layers)
    yield f"      {entry.framework}: {entry.program}; nodes {entry.min_nodes} to {most}; layers {layers}"
    scales = [f"{scale} (default)" if scale == entry.default_scale else scale for scale in entry.scales]
    yield f"      scales: {', '.join(scales)}"
    if entry.options:
        yield f"      options: {', '.join(f'{name}={_default(option)}' for name, option in entry.options.items())}"
    for threshold in entry.criteria:
        bounds = {"min": threshold.min, "max": threshold.max, "expr": threshold.expr}
        yield f"      holds: {threshold.metric} {', '.join(f'{k} {v}' for k, v in bounds.items() if v is not None)}"
    yield f"      from {origins[f'entry {entry.name}']}"


def _default(option: Option) -> str:
    value = option.convert("default", option.default)
    return format_size(value) if option.type == "size" and isinstance(value, int) else str(value)


def _accelerator(accelerator: Accelerator) -> str:
    nics = f"{accelerator.rails}x{accelerator.gbps:g} Gb/s" if accelerator.rails else "NICs by inventory"
    domain = f", NVLink domain of {accelerator.nvlink_domain} nodes" if accelerator.nvlink_domain > 1 else ""
    figures = f", {len(accelerator.figures)} figures" if accelerator.figures else ", figures derived"
    return f"{accelerator.gpus_per_node} a node, {nics}{domain}{figures}; labels {', '.join(accelerator.products)}"
