"""The parts of `workloads/collectives.py` that need no peers."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import collectives
from workloads.collectives import COLLECTIVES, Failure, Fault, Layout, Pattern, Ranks, expected, fill, layout, sent

SOURCE = Path(collectives.__file__)


def pattern(world: int, dtype: str = "float", addends: int | None = None) -> Pattern:
    name, _, limit = collectives.DTYPES[dtype]
    return Pattern(torch, torch.zeros(1, dtype=getattr(torch, name)), world, addends or world, limit)


def test_the_program_needs_nothing_but_python_and_pytorch() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    roots = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert roots <= sys.stdlib_module_names | {"torch", "__future__"}


# -- sizes and bandwidths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("1K", 1024), ("16G", 2**34), ("1.5M", 1572864), ("2GiB", 2**31), ("4kb", 4096)]
)
def test_sizes_are_read_as_nccl_tests_reads_them(text: str, value: int) -> None:
    assert collectives.size(text) == value


@pytest.mark.parametrize("text", ["", "-4", "0", "K", "1.5", "1e3", "8 bytes", "0.3K"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="--begin"):
        collectives.arguments([f"--begin={text}"])


@pytest.mark.parametrize(
    ("collective", "requested", "world", "want"),
    [
        ("all_reduce", 1048576, 3, Layout(1048576, 262144, 262144, 262144, 1048576)),
        ("broadcast", 1000, 3, Layout(1000, 250, 250, 250, 1000)),
        ("sendrecv", 1024, 4, Layout(1024, 256, 256, 256, 1024)),
        # pieces are rounded down to 16 bytes a rank; size is the whole, count the piece (src/all_gather.cu)
        ("all_gather", 1048576, 3, Layout(1048576, 87380, 87380, 262140, 1048560)),
        ("reduce_scatter", 1048576, 3, Layout(1048576, 87380, 262140, 87380, 1048560)),
        ("alltoall", 1048576, 4, Layout(1048576, 65536, 262144, 262144, 1048576)),
        ("all_gather", 60, 4, Layout(60, 0, 0, 0, 0)),
    ],
)
def test_size_and_count_mean_what_they_mean_in_nccl_tests(
    collective: str, requested: int, world: int, want: Layout
) -> None:
    assert layout(COLLECTIVES[collective], requested, world, width=4) == want


def test_a_real_row_of_nccl_tests_has_our_size_and_count() -> None:
    """all_gather_perf on 2 GPUs: size 1073741824, count 134217728."""
    assert layout(COLLECTIVES["all_gather"], 2**30, 2, width=4).piece == 134217728


def test_sizes_too_small_for_all_ranks_are_left_out_and_each_size_comes_once() -> None:
    sizes = collectives.steps(8, 1024, 2)
    assert [this.nbytes for this in collectives.sweep(COLLECTIVES["all_gather"], sizes, 4, 4)] == [
        64,
        128,
        256,
        512,
        1024,
    ]
    assert len(collectives.sweep(COLLECTIVES["all_reduce"], sizes, 4, 4)) == 8
    with pytest.raises(Failure, match="raise --end"):
        collectives.sweep(COLLECTIVES["alltoall"], [8, 16], 64, 4)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("alltoall", 0.875),
        ("broadcast", 1),
        ("sendrecv", 1),
    ],
)
def test_bus_bandwidth_follows_performance_md(collective: str, factor: float) -> None:
    assert COLLECTIVES[collective].factor(8) == pytest.approx(factor)


def test_bandwidth_is_in_gigabytes_of_1e9_and_time_is_the_mean_over_ranks() -> None:
    cells = [collectives.Cell([900.0, 1100.0], [0, 2]), collectives.Cell([1000.0, 1000.0], [1, 0])]
    figures = collectives.cell_figures(cells, 1_000_000, 1.5)
    assert figures == {"time_us": 1000, "algbw": 1.0, "busbw": 1.5, "wrong": 3, "iters": 0}


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.0, 6, "  0.00"),
        (22.5, 6, " 22.50"),
        (480.123, 6, "480.12"),
        (1480.1, 6, "1480.1"),
        (10.005, 7, "  10.01"),
        (5871.07, 7, "5871.07"),
        (27211.04, 7, "27211.0"),
        (1234567.8, 7, "1234568"),
        (123456789.0, 7, "1.2e+08"),
    ],
)
def test_figures_have_the_width_of_nccl_tests(value: float, width: int, text: str) -> None:
    assert collectives.figure(value, width) == text


# -- test data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(collectives.DTYPES))
@pytest.mark.parametrize("world", [2, 7, 300, 1500])
def test_sums_are_exact_in_every_type_and_any_order(dtype: str, world: int) -> None:
    data = pattern(world, dtype)
    tables = data.tables(None, -1, repetition=3)
    total = data.total(-1, repetition=3)
    _, _, limit = collectives.DTYPES[dtype]
    exact = tables.to(torch.int64).sum(0, keepdim=True)
    assert int(exact.max()) <= limit
    assert torch.equal(total.to(torch.int64), exact)
    assert int(exact.max()) > 0


@settings(max_examples=50, deadline=None)
@given(
    length=st.integers(1, 5000),
    pieces=st.integers(1, 4),
    position=st.floats(0, 1, exclude_max=True),
    dtype=st.sampled_from(["float", "int8", "bfloat16"]),
)
def test_one_changed_element_is_one_wrong_element(length: int, pieces: int, position: float, dtype: str) -> None:
    data = pattern(pieces, dtype, addends=1)
    tables = data.tables(None, -1, repetition=1)
    buffer = torch.zeros(length * pieces, dtype=tables.dtype)
    fill(buffer, tables)
    assert collectives.count_wrong(buffer, tables) == 0
    buffer[int(position * len(buffer))] += 1
    assert collectives.count_wrong(buffer, tables) == 1


def test_blocks_are_compared_to_the_last_element() -> None:
    tables = pattern(2).tables(0, -1, 1)
    buffer = torch.zeros(collectives.BLOCK * 2 + 5)
    fill(buffer, tables)
    for index in (0, collectives.BLOCK - 1, collectives.BLOCK, len(buffer) - 6, len(buffer) - 1):
        buffer[index] -= 0.5
    assert collectives.count_wrong(buffer, tables) == 5


def test_not_a_number_is_wrong() -> None:
    assert collectives.count_wrong(torch.full((2000,), float("nan")), pattern(2).tables(0, -1, 1)) == 2000


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
def test_a_result_of_the_last_repetition_or_of_another_rank_is_wrong(collective: str) -> None:
    """Most elements must differ, or a stale buffer and a swapped piece would pass."""
    kind, data = COLLECTIVES[collective], pattern(4)
    right = expected(kind, data, Ranks(1, 4, 0, "n"), repetition=5)
    stale = expected(kind, data, Ranks(1, 4, 0, "n"), repetition=4)
    assert (right != stale).float().mean() > 0.9
    if kind.output == "each":
        assert all((right[0] != piece).float().mean() > 0.9 for piece in right[1:])


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@pytest.mark.parametrize("world", [2, 3, 5])
def test_what_is_expected_is_what_the_collective_makes_of_what_is_sent(collective: str, world: int) -> None:
    """The definition of each collective, spelled out once more over tables."""
    kind = COLLECTIVES[collective]
    data = pattern(world, addends=world if kind.output == "sum" else 1)
    ranks = [Ranks(rank, world, 0, "n") for rank in range(world)]
    out = [sent(kind, data, who, 2) for who in ranks]
    for who in ranks:
        mine = [piece[who.rank : who.rank + 1] for piece in out]
        definition = {
            "all_reduce": torch.stack(out).sum(0),
            "all_gather": torch.cat(out),
            "reduce_scatter": torch.stack(mine).sum(0) if kind.split else None,
            "alltoall": torch.cat(mine),
            "broadcast": out[0],
            "sendrecv": out[who.rank - 1],
        }[collective]
        assert definition is not None
        assert torch.equal(expected(kind, data, who, 2), definition)


def alone(network: Stale) -> collectives.Bench:
    """One rank's bench for one size of all_gather, over another network."""
    args = collectives.arguments(["--collective=all_gather", "--begin=4000", "--end=4000"])
    watchdog = SimpleNamespace(step=lambda _what: None)
    bench = collectives.Bench(args, Ranks(0, 1, 0, "n"), "gloo", Fault(), watchdog)  # type: ignore[arg-type]
    bench.allocate(1)
    bench.dist = network
    return bench


class Stale:
    """A network that delivers what it was given the first time, for ever."""

    def __init__(self) -> None:
        self._first: torch.Tensor | None = None

    def all_gather_single(self, recv: torch.Tensor, send: torch.Tensor) -> None:
        self._first = send.clone() if self._first is None else self._first
        recv.copy_(self._first)

    all_gather_into_tensor = all_gather_single


class Slow(Stale):
    """A network whose operations take `seconds` one after the other (the last for ever), by a clock of its own."""

    def __init__(self, *seconds: float) -> None:
        self._seconds, self.now, self.done = list(seconds), 0.0, 0

    def all_gather_single(self, recv: torch.Tensor, send: torch.Tensor) -> None:
        recv.copy_(send)
        if send.dtype is torch.float64:  # our own talk about the times
            return
        self.done += 1
        self.now += self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]

    all_gather_into_tensor = all_gather_single

    def barrier(self) -> None:
        pass


@pytest.mark.parametrize(
    ("seconds", "iters", "done"),
    [
        ([0.1], 20, 5 + 20 + 1),  # warm-up, timed, checked
        ([32.0], 1, 2 + 1 + 1),  # TCP at 1 GB/s where 16 GiB were to go 20 times
        ([7.0], 8, 2 + 8 + 1),
        ([9.0, 0.1], 20, 2 + 4 + 20 + 1),  # the first one connected the ranks
    ],
)
def test_a_slow_network_is_measured_with_fewer_iterations(
    seconds: list[float], iters: int, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = alone(Slow(*seconds))
    network = bench.dist
    monkeypatch.setattr("time.perf_counter", lambda: network.now)
    cell = bench.cell(bench.layouts[0], in_place=False, cycle=0)
    assert (cell.iters, network.done) == (iters, done)
    assert cell.time_us == pytest.approx(seconds[-1] * 1e6)
    bench.cell(bench.layouts[0], in_place=False, cycle=1)
    assert network.done == done + iters + 1


class Lost(Stale):
    """A network that delivers nothing."""

    def all_gather_single(self, recv: torch.Tensor, send: torch.Tensor) -> None:
        pass

    all_gather_into_tensor = all_gather_single


@pytest.mark.parametrize(("network", "first"), [(Stale(), 0), (Lost(), 1000)])
def test_a_stale_and_a_lost_result_are_seen_in_every_iteration_that_is_checked(network: Stale, first: int) -> None:
    bench = alone(network)
    send, recv = bench.buffers(bench.layouts[0], in_place=False)
    assert bench.wrong(send, recv, 4000) == first
    assert bench.wrong(send, recv, 4000) > 900


# -- command line and environment --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--collective=all_reduced"], "invalid choice: 'all_reduced'"),
        (["--begin=1M", "--end=1K"], "--begin 1048576 is above --end 1024"),
        (["--iters=0"], "at least 1, found '0'"),
        (["--factor=1"], "at least 2"),
        (["--size=3"], "unrecognized arguments: --size=3"),
    ],
)
def test_a_wrong_argument_is_said(argv: list[str], words: str) -> None:
    with pytest.raises(Failure, match=words):
        collectives.arguments(argv)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "RANK, WORLD_SIZE, MASTER_ADDR not set"),
        ({"RANK": "a", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, "RANK='a'"),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, "RANK=2 is not below WORLD_SIZE=2"),
    ],
)
def test_a_wrong_environment_is_said(env: dict[str, str], words: str) -> None:
    with pytest.raises(Failure, match=words):
        collectives.ranks_from(env)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", Fault()),
        ("kill:rank=2,after=1M", Fault("kill", "rank=2", 2**20)),
        ("hang:node=local-1", Fault("hang", "node=local-1")),
        ("stop-early:after=32K", Fault("stop-early", "", 32768)),
        ("corrupt", Fault("corrupt")),
    ],
)
def test_faults_for_tests_are_read(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


def test_a_sweep_is_cut_short_on_every_rank_of_a_run_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault.parse("stop-early:node=b,after=1K")
    monkeypatch.setenv("CLUSTERPROOF_NODES", "a,b")
    assert fault.strike(Ranks(0, 2, 0, "a"), 2048)
    assert not fault.strike(Ranks(0, 2, 0, "a"), 1024)
    monkeypatch.setenv("CLUSTERPROOF_NODES", "a,c")
    assert not fault.strike(Ranks(0, 2, 0, "a"), 2048)


@pytest.mark.parametrize("text", ["kil:rank=2", "kill:rank=", "kill:2", "hang:after=-1"])
def test_a_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="CLUSTERPROOF_FAULT"):
        Fault.parse(text)


def test_above_a_thousand_ranks_there_is_one_entry_a_node() -> None:
    people = [{"rank": rank, "node": f"node-{rank // 2}"} for rank in range(4)]
    row = collectives.Row(Layout(8, 2, 2, 2, 8), [collectives.Cell([1.0, 3.0, 5.0, 5.0], [0, 1, 0, 0])])
    assert collectives.per_node(collectives.per_rank([row], people)) == [
        {"node": "node-0", "ranks": 2, "time_us": 2.0, "wrong": 1},
        {"node": "node-1", "ranks": 2, "time_us": 5.0, "wrong": 0},
    ]


def test_whatever_ends_a_rank_is_said_on_both_streams(capsys: pytest.CaptureFixture[str]) -> None:
    collectives.complain("no GPU here", Ranks(3, 4, 0, "node-3"))
    out, err = capsys.readouterr()
    assert json.loads(out.removeprefix("CLUSTERPROOF-ERROR ")) == {
        "schema": "clusterproof.error/v1",
        "rank": 3,
        "node": "node-3",
        "step": 0,
        "what": "no GPU here",
    }
    assert err == "collectives.py: rank 3 on node-3: no GPU here\n"


def test_a_peer_is_named_where_one_node_alone_has_its_address() -> None:
    watchdog = object.__new__(collectives.Watchdog)
    watchdog.nodes = {"10.0.0.7": "node-7", "fd00::7": "node-8"}
    assert watchdog.peer_in("Connection closed by peer [10.0.0.7]:4711.") == "node-7"
    assert watchdog.peer_in("Read error [fd00::7]:1: Connection reset by peer") == "node-8"
    assert watchdog.peer_in("Connection closed by peer [10.0.0.9]:4711.") is None
    assert watchdog.peer_in("Timed out waiting 5000ms for recv operation to complete") is None


def test_places_and_stacks_of_c_plus_plus_are_left_out() -> None:
    error = RuntimeError(
        "[/__w/a/gloo/pair.cc:537] Connection closed by peer [127.0.0.1]:1. GLHF! \U0001f3d6\nframe #0: x"
    )
    assert collectives.first_line(error) == "Connection closed by peer [127.0.0.1]:1."
    assert collectives.first_line(RuntimeError()) == "RuntimeError"
