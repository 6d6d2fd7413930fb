"""Writes docs/profiles.md from the catalog, so that the page and the data cannot differ.

`python -m catalog.documenting` prints the page; a test holds it against the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from catalog.accelerator import Accelerator, FigureRow
from catalog.loading import Catalog, load
from catalog.profile import Profile
from catalog.units import format_size

HEAD = """\
# Expected figures and where they come from

Written by `python -m catalog.documenting > docs/profiles.md`; do not edit by hand.

Every figure below is somebody else's publication; none was reproduced by us. Treat each as provisional until
`--propose-profile` has measured a healthy fleet of yours.

## How an expectation comes about

1. A threshold of yours on `busBandwidthGBps` replaces everything below for its case.
2. Else the nearest row of the **reference profiles** of the fabric class: product, NICs x line rate, platform, layer,
   collective, algorithm. A row of another number of nodes, GPUs or bytes moves by the ratio of the physical bounds and
   by `size / (size + half)`, where `half` is 32 MiB x sqrt(nodes) inside an NVLink domain and 128 MiB x
   sqrt(max(nodes, 4) / 4) over NICs; the result is called *derived*, and the verdict prints the sum.
3. Else the **accelerator's healthy figure**, moved in the same way.
4. Else a share of the **physical bound** that other products reach (*provisional*; the shares are in
   catalog/healthy.py).
5. Where not even the NICs are known, the case is *inconclusive*: exit codes prove nothing about bandwidth.

The floor is `tolerance x expectation`, 0.8 unless said otherwise, and is printed with every verdict. The value judged
is the out-of-place bus bandwidth at the largest message size, of the worst repeat.

`advisory` rows are shown and never an expectation: at two nodes NCCL may use a tree, which reduces inside the node
first and so reports more than the NICs carry. Such a value proves another algorithm, not a good fabric; so does any
other all-reduce above NICs x line rate.

**Kinds**: *measured*: published with its conditions; *published*: a vendor's floor or a statement; *derived*: by a
formula from one of these; *provisional*: by a formula, nobody published it.

## Your own figures

A YAML file in a directory given with `--catalog DIR` adds to the page or takes the place of what has the same name.
The nearest row decides, so a profile of your own fleet at its own size goes before everything here.

```yaml
profiles:
  - name: our-h100
    accelerators: [h100]
    rails: 8
    gbps: 400
    transport: InfiniBand
    program: collectives.py
    confidence: high
    rows:
      - {collective: all_reduce, layer: fabric, nodes: 64, gpusPerNode: 8, size: 16G, value: 372.5, kind: measured,
         conditions: "median of 12 healthy runs, 370.1 to 374.0", source: our cluster, date: 2026-11-20}
accelerators:                       # a product that is not known yet
  - name: acme-x1
    products: ["ACME-X1*"]          # patterns over the GPU label
    vendor: nvidia
    gpusPerNode: 8
    rails: 8
    gbps: 400
    nvlinkGbps: 3600
machines:                           # the NICs of a machine type, which no Node object tells
  - {name: our-cloud, platform: onprem, types: ["gpu.h100.*"], rails: 8, gbps: 400, source: our cloud's data sheet}
```

## Physical bounds

n ranks on k nodes of g GPUs, B = NICs x line rate / 8 (GB/s of one node), bus bandwidth as nccl-tests defines it.

| Collective | Bound over NICs |
|---|---|
| all-reduce, all-gather, reduce-scatter by a ring; broadcast | B |
| all-to-all | B/g x (n-1)/(n-g) |
| sendrecv | the larger of B/g and one NIC |
| all-reduce by a tree, reduced inside the node first | B x (n-1)/(g(k-1)) |
| all-reduce reduced in the network | B x 2(n-1)/n |
| any, inside one node through its NICs (loopback) | B/g |

Inside one NVLink domain the bound is the GPU's NVLink rate, and 2(n-1)/n of it for an all-reduce that the switch
reduces.

## Never shipped

Published, but without conditions, above what the links carry, or from a sweep that ends too early: A100 + HDR
"250-300" and H100 "400-450" (saturncloud.io), the AWS health check's floors p5 800, p4d 300, p6-b200 900 and its EFA
loopback 20 Gb/s, and 500 for an NVLink-only p5 node.
"""
COLUMNS = ("Figure", "Unit", "What", "Shape", "Size", "Algorithm", "Kind", "Conditions", "Source", "Date")


def page(catalog: Catalog) -> str:
    """The whole page."""
    return "\n".join([HEAD, *_profiles(catalog), *_accelerators(catalog)]).rstrip() + "\n"


def _profiles(catalog: Catalog) -> Iterator[str]:
    yield "## Reference profiles\n"
    for profile in catalog.profiles.values():
        yield f"### {profile.name}\n"
        yield f"{profile.description}. {_class(profile)}.\n"
        yield from _table(profile.rows)


def _class(profile: Profile) -> str:
    nics = f"{profile.rails}x{profile.gbps:g} Gb/s" if profile.rails else "no NICs"
    platforms = ", ".join(profile.platforms) or "any platform"
    domain = f"; NVLink domain of {profile.nvlink_domain} nodes" if profile.nvlink_domain > 1 else ""
    return (
        f"Products {', '.join(profile.accelerators)}; {nics}, {profile.transport}{domain}; {platforms}; "
        f"figures of {profile.program}; confidence {profile.confidence}"
    )


def _accelerators(catalog: Catalog) -> Iterator[str]:
    yield "## Healthy figures of accelerators\n"
    yield "What expectations fall back on, and what the healthy machines of a simulation measure.\n"
    for acc in catalog.accelerators.values():
        yield f"### {acc.name}\n"
        yield f"{_product(acc)}\n"
        yield from _table(acc.figures)


def _product(acc: Accelerator) -> str:
    parts = [f"{acc.gpus_per_node} a node"]
    parts += [f"{acc.rails}x{acc.gbps:g} Gb/s NICs" if acc.rails else "NICs as the inventory says"]
    parts += [f"NVLink or xGMI {acc.nvlink_gbps / 8:g} GB/s a GPU and direction"] if acc.nvlink_gbps else ["no NVLink"]
    parts += [f"NVLink domain of {acc.nvlink_domain} nodes"] if acc.nvlink_domain > 1 else []
    note = "" if acc.figures else " No figure was published: all are provisional, from the physical bound."
    return f"{'; '.join(parts)}.{note}"


def _table(rows: tuple[FigureRow, ...]) -> Iterator[str]:
    if not rows:
        return
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for row in rows:
        yield f"| {' | '.join(_cells(row))} |"
    yield ""


def _cells(row: FigureRow) -> tuple[str, ...]:
    what = " ".join(part for part in (row.collective or row.metric, row.precision) if part)
    domains = f", domains of {row.nvlink_domain}" if row.nvlink_domain > 1 else ""
    kind = f"{row.kind}, advisory" if row.advisory else row.kind
    conditions = f"{row.conditions}; {row.formula}" if row.formula else row.conditions
    return (
        f"{row.value:g}",
        row.unit,
        f"{what}, {row.layer}",
        f"{row.nodes}x{row.gpus_per_node}{domains}",
        format_size(row.size) if row.size else "-",
        row.algorithm,
        kind,
        conditions.replace("|", "/"),
        row.source,
        row.date,
    )


if __name__ == "__main__":
    sys.stdout.write(page(load()))
