"""Reading the simulation file, and refusing what cannot be: one line a problem, each with its path in the file.

A fault is read by the model of its kind, so that a message lists the keys of that kind only. Names are then held
against the fabric: a fault on a node that does not exist would otherwise never show, and its author would believe that
the search had missed it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from catalog import Catalog, CatalogError, check, read_yaml
from catalog.errors import listing, suggestion
from cluster.simulated.layout import Layout, build
from cluster.simulated.spec import (
    KINDS,
    BoundaryFault,
    Fault,
    GpuFault,
    LinkFault,
    NicFault,
    Simulation,
    TransientFault,
)

_INNER_PATH = re.compile(r"(faults\[\d+\]): (?=[a-z_A-Z]\w*(?:[.\[]\S*)?: )")


def load(path: str | Path, catalog: Catalog) -> tuple[Simulation, tuple[Fault, ...], Layout]:
    """The file at `path`, checked as a whole. Raises `CatalogError` with every problem found."""
    spec = check(Simulation, read_yaml(path), str(path))
    return finish(spec, catalog, str(path))


def finish(spec: Simulation, catalog: Catalog, where: str) -> tuple[Simulation, tuple[Fault, ...], Layout]:
    """`spec` with its faults read and held against the fabric it describes; `where` begins every message."""
    faults, problems = _faults(spec, where)
    problems += [f"{where}: {problem}" for problem in _topology_problems(spec)]
    if problems:
        raise CatalogError("\n".join(problems))
    layout = build(spec, catalog.accelerator_for(spec.product))
    problems = [
        f"{where}: faults[{index}].{problem}"
        for index, fault in enumerate(faults)
        for problem in _fault_problems(fault, spec, layout, catalog)
    ]
    if problems:
        raise CatalogError("\n".join(problems))
    return spec, tuple(faults), layout


def _faults(spec: Simulation, where: str) -> tuple[list[Fault], list[str]]:
    faults: list[Fault] = []
    problems: list[str] = []
    for index, raw in enumerate(spec.faults):
        at = f"{where}: faults[{index}]"
        kind = raw.get("kind")
        model = KINDS.get(kind) if isinstance(kind, str) else None
        if model is None:
            problems.append(
                f"{at}.kind: expected one of {listing(KINDS, limit=len(KINDS))}, found {kind!r}"
                f"{suggestion(str(kind), KINDS)}"
            )
            continue
        try:
            faults.append(cast("Fault", check(cast("type[Any]", model), raw, at)))
        except CatalogError as error:
            problems += [_INNER_PATH.sub(r"\1.", line) for line in str(error).splitlines()]
    return faults, problems


def _topology_problems(spec: Simulation) -> Iterator[str]:
    """Levels must nest: a rack that lies in two blocks has no path."""
    levels = list(spec.topology.items())
    for (outer, outer_size), (inner, inner_size) in pairwise(levels):
        if outer_size >= len(spec.nodes):  # one domain holds all, whatever lies in it
            continue
        if outer_size % inner_size:
            yield (
                f"topology.{inner}: expected a number that divides {outer}: {outer_size} "
                f"(outermost level first, so that no {inner} lies in two domains), found {inner_size}"
            )


def _fault_problems(fault: Fault, spec: Simulation, layout: Layout, catalog: Catalog) -> Iterator[str]:
    node = getattr(fault, "node", None)
    if node is not None and node not in layout.by_name:
        yield f"node: {_unknown('a node', node, layout.by_name)}"
    check_more = _MORE.get(type(fault))
    if check_more is not None:
        yield from check_more(fault, spec, layout, catalog)


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    return f"expected {what} of this simulation ({listing(known, limit=4)}), found {name!r}{suggestion(name, known)}"


def _link_problems(fault: LinkFault, _spec: Simulation, layout: Layout, _catalog: Catalog) -> Iterator[str]:
    for index, name in enumerate(fault.between):
        if name not in layout.by_name:
            yield f"between[{index}]: {_unknown('a node', name, layout.by_name)}"
    if fault.between[0] == fault.between[1]:
        yield f"between: expected two different nodes, found {fault.between[0]!r} twice"


def _boundary_problems(fault: BoundaryFault, _spec: Simulation, layout: Layout, _catalog: Catalog) -> Iterator[str]:
    for index, name in enumerate(fault.between):
        if name not in layout.members:
            yield f"between[{index}]: {_unknown('a domain', name, layout.members)}"
    levels = {layout.level.get(name, "") for name in fault.between}
    if fault.between[0] == fault.between[1] or len(levels) > 1:
        yield f"between: expected two different domains of one level, found {' and '.join(fault.between)}"


def _nic_problems(fault: NicFault, _spec: Simulation, layout: Layout, _catalog: Catalog) -> Iterator[str]:
    if fault.rail is not None and layout.rails and fault.rail >= layout.rails:
        yield f"rail: expected 0 to {layout.rails - 1} (the node has {layout.rails} NICs), found {fault.rail}"


def _gpu_problems(fault: GpuFault, spec: Simulation, _layout: Layout, _catalog: Catalog) -> Iterator[str]:
    if fault.gpu >= spec.accelerators:
        yield f"gpu: expected 0 to {spec.accelerators - 1} (accelerators: {spec.accelerators}), found {fault.gpu}"


def _transient_problems(fault: TransientFault, _spec: Simulation, _layout: Layout, catalog: Catalog) -> Iterator[str]:
    if fault.case not in catalog.entries:
        yield (
            f"case: expected an entry of the catalog ({listing(catalog.entries)}), found {fault.case!r}"
            f"{suggestion(fault.case, catalog.entries)}"
        )


_MORE: Mapping[type[Any], Callable[[Any, Simulation, Layout, Catalog], Iterator[str]]] = {
    LinkFault: _link_problems,
    BoundaryFault: _boundary_problems,
    NicFault: _nic_problems,
    GpuFault: _gpu_problems,
    TransientFault: _transient_problems,
}
