"""The standard output of rank 0's node, line for line as workloads/collectives.py and NCCL would write it.

Readers and criteria meet real text here, never the fault list. Every line carries the virtual second at which it was
written, so that a run which ends early ends its log there too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.sweep import KINDS, Cell, Row, Size

VERSIONS: Mapping[str, str] = {
    "torch": "2.13.0",
    "nccl": "2.27.7",
    "cuda": "12.9",
    "driver": "580.65.06",
    "python": "3.12.3",
    "kernel": "6.8.0-simulated",
}
MOST_RANKS_LISTED = 1024
"""Above, neither the device list nor the result line has an entry a rank: standard output stays small."""

_SIDE = "     time   algbw   busbw  #wrong"
_UNITS = "     (us)  (GB/s)  (GB/s)        "
HEADER = "\n".join(
    (
        "#",
        f"#{'out-of-place':>74}{'in-place':>31}          ",
        f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8}{_SIDE}{_SIDE} ",
        f"#{'(B)':>11}{'(elements)':>14}{'':26}{_UNITS}{_UNITS} ",
    )
)
"""Exactly as nccl-tests 2.17 and later print it."""


@dataclass(frozen=True, slots=True)
class Network:
    """What NCCL calls the network that a platform's plugin provides."""

    name: str
    using: str
    """The line that lists the devices; `{devices}`, `{count}` and `{address}` are filled in."""
    device: str


INFINIBAND = Network("IB", "NET/IB : Using {devices} [RO]; OOB eth0:{address}<0>", "mlx5_{}:1/IB")
EFA = Network("AWS Libfabric", "NET/OFI Selected provider is efa, fabric is efa (found {count} nics)", "rdmap{}s0")


def network_of(run: Situation) -> Network:
    """The network that the platform promises: EFA on AWS (but RoCE with GB300), else InfiniBand or RoCE, both IB."""
    node = run.layout.nodes[0]
    return EFA if node.platform == "aws" and "GB300" not in node.product else INFINIBAND


def _address(run: Situation, node: str) -> str:
    number = run.position[node] + 1
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _info(node: str, text: str) -> str:
    return f"{node}:4000:4012 [0] NCCL INFO {text}"


def devices_of(run: Situation) -> list[str]:
    """The NICs that NCCL uses on every node: all of them, or the one of the rail."""
    count, first = (run.layout.rails, 0) if run.workload.rail is None else (1, run.workload.rail)
    return [network_of(run).device.format(first + index) for index in range(count)]


def networks_used(run: Situation, exposed: Exposure) -> list[str]:
    """The transports between ranks, without device numbers."""
    nodes, several = len(run.workload.nodes), run.workload.ranks_per_node > 1
    inside = ["P2P/MNNVL" if uses_mnnvl(run) else "P2P/CUMEM"] if several or nodes > 1 else []
    if not run.leaves_nvlink:
        return inside
    fallen = len(exposed.sockets)
    outside = [f"NET/{network_of(run).name}/GDRDMA"] if fallen < nodes else []
    return [*outside, *(["NET/Socket"] if fallen else []), *(inside if several and not run.through_nics else [])]


def uses_nvls(run: Situation) -> bool:
    """The NVLink switch may reduce: not where NVLink is off or the ring is forced."""
    return not run.through_nics and run.workload.env.get("NCCL_ALGO") != "Ring"


def _network_lines(run: Situation, node: str, socket: bool) -> Iterator[str]:
    network, address = network_of(run), _address(run, node)
    if socket:
        yield _info(node, f"NET/{network.name} : No device found.")
        yield _info(node, f"NET/Socket : Using [0]eth0:{address}<0>")
        yield _info(node, "Using network Socket")
        return
    devices = devices_of(run)
    listed = " ".join(f"[{index}]{device}" for index, device in enumerate(devices))
    yield _info(node, network.using.format(devices=listed, count=len(devices), address=address))
    yield _info(node, f"Using network {network.name}")


def _channel(run: Situation, exposed: Exposure) -> str:
    """The way from rank 0 out of its node, or to its neighbour inside."""
    nodes, ranks = run.workload.nodes, run.workload.ranks_per_node
    if run.leaves_nvlink:
        peer = ranks if len(nodes) > 1 else 1
        socket = {nodes[0], nodes[min(1, len(nodes) - 1)]} & set(exposed.sockets)
        rail = run.workload.rail or 0
        via = f"NET/Socket/{rail}" if socket else f"NET/{network_of(run).name}/{rail}/GDRDMA"
        return f"Channel 00/0 : 0[0] -> {peer}[{peer % ranks}] [send] via {via}"
    via = "P2P/MNNVL" if len(nodes) > 1 else "P2P/CUMEM"
    return f"Channel 00/0 : 0[0] -> 1[{1 % ranks}] via {via}"


def uses_mnnvl(run: Situation) -> bool:
    """Two nodes of the group really talk over NVLink."""
    return run.mnnvl and not run.through_nics and max(run.domains.values()) > 1


def nccl_lines(run: Situation, exposed: Exposure) -> Iterator[str]:
    """NCCL's INFO lines of rank 0, and of one rank of every node that does not use the platform's network."""
    work = run.workload
    if work.backend != "nccl" or work.world_size < 2:
        return
    leader, nodes, local = work.nodes[0], len(work.nodes), work.ranks_per_node
    yield _info(leader, f"Bootstrap: Using eth0:{_address(run, leader)}<0>")
    yield _info(leader, "cudaDriverVersion 13000")
    yield _info(leader, f"NCCL version {VERSIONS['nccl']}+cuda{VERSIONS['cuda']}")
    for node in dict.fromkeys((leader, *exposed.sockets)):
        yield from _network_lines(run, node, node in exposed.sockets)
    yield _info(
        leader,
        f"comm 0x5c2e9bbbb3f0 rank 0 nRanks {work.world_size} nNodes {nodes} localRanks {local} localRank 0 "
        f"MNNVL {int(uses_mnnvl(run))}",
    )
    if uses_nvls(run):
        yield _info(leader, "NVLS multicast support is available on dev 0")
    yield _info(leader, _channel(run, exposed))
    yield _info(
        leader, "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer"
    )
    yield _info(
        leader,
        f"ncclCommInitRank comm 0x5c2e9bbbb3f0 rank 0 nranks {work.world_size} cudaDev 0 nvmlDev 0 busId 18000 "
        "commId 0x1111aaaa2222bb01 - Init COMPLETE",
    )


def _parameters(run: Situation, sizes: Sequence[Size]) -> str:
    """The sweep as asked for (rows may be rounded down), without sizes too small to hold an element a rank."""
    options = run.workload.options
    return (
        f"# nThread 1 nGpus 1 minBytes {sizes[0].requested} maxBytes {options.get('maxBytes', 2**34)}"
        f" step: {options.get('stepFactor', 2)}(factor) warmup iters: {options.get('warmupIterations', 5)}"
        f" iters: {options.get('numIterations', 20)} agg iters: 1 validation: 1 graph: 0"
        f" cycles: {options.get('numCycles', 4)}"
    )


def opening(run: Situation, sizes: Sequence[Size]) -> str:
    """The comments above the table."""
    work = run.workload
    lines = [
        f"# clusterproof collectives.py, PyTorch {VERSIONS['torch']}, backend {work.backend}",
        f"# Collective test starting: {work.collective}_perf",
        _parameters(run, sizes),
        "#",
        "# Using devices",
    ]
    if work.world_size <= MOST_RANKS_LISTED:
        product = _device_name(run)
        lines += [
            f"#  Rank {rank:2d} Group  0 Pid {4000 + rank % work.ranks_per_node:6d} on {work.node_of(rank):>10s} "
            f"device {device(run, rank, product)}"
            for rank in range(work.world_size)
        ]
    return "\n".join(lines)


def _device_name(run: Situation) -> str:
    return run.layout.nodes[0].product.replace("-", " ")


def device(run: Situation, rank: int, product: str | None = None) -> str:
    """The device of a rank as the table's head and the result line name it."""
    local = rank % run.workload.ranks_per_node
    name = product if product is not None else _device_name(run)
    return (
        f"{local:2d} [cpu] CPU"
        if run.workload.backend == "gloo"
        else f"{local:2d} [0000:{16 + 16 * local:02x}:00] {name}"
    )


def _figure(value: float, width: int) -> str:
    """As many decimals as fit, two at most (getFloatStr in nccl-tests, src/util.cu)."""
    if math.isnan(value):
        return f"{'nan':>{width}s}"
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    return f"{value:{width}.{decimals}f}" if digits <= width else f"{value:{width}.1e}"


def mean(cells: Sequence[Cell], size: Size, factor: float) -> Cell | None:
    """The cells of several repeats as one: time averaged, bandwidths from it, wrong elements summed."""
    if not cells:
        return None
    time_us = sum(cell.time_us for cell in cells) / len(cells)
    algbw = size.nbytes / 1e3 / time_us
    known = [cell.wrong for cell in cells if cell.wrong is not None]
    return Cell(time_us, algbw, algbw * factor, sum(known) if known else None)


def table_row(run: Situation, row: Row, factor: float) -> str:
    """One row of the table."""
    kind = KINDS[run.workload.collective]
    dtype = str(run.workload.options.get("dtype", "float"))
    text = f"{row.size.nbytes:12d}  {row.size.count:12d}  {dtype:>8s}  {kind.redop:>6s}  {kind.root:6d}"
    for cells in (row.out_of_place, row.in_place):
        cell = mean(cells, row.size, factor)
        if cell is None:
            text += f"  {'N/A':>7s}  {'N/A':>6s}  {'N/A':>6s}  {'N/A':>6s}"
            continue
        wrong = "N/A" if cell.wrong is None else f"{cell.wrong:g}"
        text += f"  {_figure(cell.time_us, 7)}  {_figure(cell.algbw, 6)}  {_figure(cell.busbw, 6)}  {wrong:>6s}"
    return text


def closing(run: Situation, rows: Sequence[Row], factor: float) -> str:
    """The comments below the table."""
    cells = [
        cell
        for row in rows
        for column in (row.out_of_place, row.in_place)
        if (cell := mean(column, row.size, factor)) is not None
    ]
    wrong = sum(cell.wrong or 0 for cell in cells)
    average = sum(cell.busbw for cell in cells) / len(cells)
    return (
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}\n"
        f"# Avg bus bandwidth    : {average:g} \n"
        f"#\n# Collective test concluded: {run.workload.collective}_perf\n#"
    )
