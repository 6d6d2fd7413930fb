"""What launchers, terminals and tears do to a log changes nothing of what it says, and a cut one is never complete."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from measure import Measurement, read
from measure.lines import BLOCK

DATA = Path(__file__).parents[1] / "data" / "measure"
TABLE = (DATA / "nccl-alltoall-in-place-unchecked.log").read_bytes()
OWN = (DATA / "own-result.log").read_bytes()

PREFIXES = [
    b"2026-03-14T09:26:00.137000731Z ",
    b"2026-03-14T09:26:00.137+01:00 stdout F ",
    b"[1,0]<stdout>:",
    b"[1,0]<stdout>: ",
    b"(head, rank=0, pid=3808) [1,0]<stdout>:",
    b"[rank0]: ",
    b"[rank0]:",
    b"[default7]:",
    b"0: ",
    b"12: ",
    b"node-a: ",
    b"launcher-0 | ",
    b"[pod/nccl-test-0/main] ",
    b"nccl.worker-3 [stdout] ",
    b"2026-03-14T09:26:00.137000731Z [1,0]<stdout>:[rank0]: ",
    b"\x1b[32m[rank0]:\x1b[0m ",
]


def facts(found: Measurement) -> tuple[object, ...]:
    """What must not change."""
    rows = [row for table in found.tables for row in table.rows]
    return found.format, found.complete, found.collective, found.ranks, found.nodes, rows, found.per_rank


@pytest.mark.parametrize("log", [TABLE, OWN], ids=["nccl-tests", "own"])
@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_prefixes_are_read_through(log: bytes, prefix: bytes) -> None:
    tagged = b"".join(prefix + line + b"\n" for line in log.splitlines())
    assert facts(read(tagged)) == facts(read(log))


def test_docker_records_are_read_through() -> None:
    lines = TABLE.decode().splitlines(keepends=True)
    records = [json.dumps({"log": line, "stream": "stdout"}, separators=(",", ":")) + "\n" for line in lines]
    assert facts(read("".join(records).encode())) == facts(read(TABLE))


@pytest.mark.parametrize(
    "prefix", [b"Mar 03 04:05:06 n1 mpirun[7]: ", b"[worker 3] ", b"2026/03/04 05:06:07 INFO | ", b"<out> "], ids=repr
)
def test_unknown_prefixes_hide_no_row_and_no_transport(prefix: bytes) -> None:
    info = (DATA / "nccl-info-efa-libfabric.log").read_bytes()
    found = read(b"".join(prefix + line + b"\n" for line in info.splitlines()))
    assert found.transport == read(info).transport
    rows = read(b"".join(prefix + line + b"\n" for line in TABLE.splitlines())).tables[0].rows
    assert rows == read(TABLE).tables[0].rows


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n\n", b" \n", b"\x1b[0m\n", b"\x00\n"], ids=repr)
def test_line_ends_are_read_through(end: bytes) -> None:
    assert facts(read(TABLE.replace(b"\n", end))) == facts(read(TABLE))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 4096])
def test_the_pieces_of_a_stream_do_not_matter(size: int) -> None:
    crlf = TABLE.replace(b"\n", b"\r\n")
    assert facts(read(crlf[at : at + size] for at in range(0, len(crlf), size))) == facts(read(TABLE))


def test_lines_across_blocks_stay_whole() -> None:
    filler = b"w-%d:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    log = b"".join(filler % (at % 9) for at in range(2 * BLOCK // len(filler)))
    half = len(TABLE) // 2
    found = read(TABLE[:half].rpartition(b"\n")[0] + b"\n" + log + TABLE[:half].rpartition(b"\n")[2] + TABLE[half:])
    assert (found.complete, len(found.tables[0].rows)) == (True, 3)


@pytest.mark.parametrize("log", [TABLE, OWN], ids=["nccl-tests", "own"])
def test_a_cut_log_is_never_complete_and_its_rows_are_right(log: bytes) -> None:
    whole = read(log)
    rows = [row for table in whole.tables for row in table.rows]
    last = log.rstrip().rfind(b"\n") + 1
    end = log.index(b"concluded") if b"concluded" in log else last
    for at in range(end):
        cut = read(log[:at])
        assert not cut.complete or not cut.tables or whole.result_line, at
        assert [row for table in cut.tables for row in table.rows] == rows[: sum(len(t.rows) for t in cut.tables)], at
        assert not cut.result_line, at


def test_a_row_whose_digits_are_gone_is_no_row() -> None:
    for old, new in ((b"  4194304  ", b"   194304  "), (b"   100.50", b"    10.50"), (b"   0   101.00", b"  101.00")):
        found = read(TABLE.replace(old, new))
        assert ([row.size for row in found.tables[0].rows], found.complete) == ([1048576, 2097152], False)


def test_a_head_that_is_gone_leaves_whole_rows() -> None:
    at = TABLE.index(b"2097152   ") + 3
    found = read(TABLE[at:])
    assert ([row.size for row in found.tables[0].rows], found.complete) == ([4194304], False)
    assert found.tables[0].out_of_bounds == 0


def test_two_writers_tables_in_one_stream_stay_two() -> None:
    lines = TABLE.splitlines()
    both = b"".join(b"[1,0]<stdout>:" + line + b"\n[1,8]<stdout>:" + line + b"\n" for line in lines)
    found = read(both)
    assert [len(table.rows) for table in found.tables] == [3, 3]
    assert found.complete


def test_a_run_that_skips_a_size_is_not_complete() -> None:
    lines = [line for line in TABLE.splitlines(keepends=True) if not line.startswith(b"     2097152")]
    found = read(b"".join(lines))
    assert not found.complete
    assert any("2 rows where the sweep has 3 sizes" in text for text in found.warnings)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x00\xff" * 99, b"# ", "日本語のログ\n".encode(), b"{" * 5000, b"9" * 99999]
)
def test_what_is_no_log_is_unknown(data: bytes) -> None:
    found = read(data)
    assert (found.format, found.complete) == ("unknown", False)


def test_each_step_counts_once_however_many_ranks_print_it() -> None:
    draw = random.Random(5)
    lines = []
    for step in range(1, 9):
        ranks = draw.sample(range(500), 500)
        if step == 1:
            ranks.remove(7)
            ranks.insert(0, 7)
        lines += [f"[rank{rank}]: step: {step}  loss:  {9 - step / 10:.4f}  tps: {1000 + rank:,}\n" for rank in ranks]
    found = read("".join(lines).encode())
    assert [(step.step, step.tokens_per_s) for step in found.steps] == [(step, 1007.0) for step in range(1, 9)]
    assert [step.loss for step in found.steps] == [float(f"{9 - step / 10:.4f}") for step in range(1, 9)]


def test_a_training_that_ends_before_its_last_step_is_not_complete() -> None:
    log = (DATA / "training-nan-at-step-seven.log").read_bytes().splitlines(keepends=True)
    assert read(b"".join(log)).complete
    cut = read(b"".join(log[:-1]))
    assert not cut.complete
    assert "the log ends at step 7 of 8" in cut.warnings


@pytest.mark.parametrize("lost", [0, 1])
def test_a_line_beside_a_step_is_joined_to_the_step_of_its_time(lost: int) -> None:
    log = (DATA / "training-bridge-beside-megatron.log").read_bytes().splitlines(keepends=True)
    found = read(b"".join(log[lost:]))
    assert [(step.step, step.tflops_per_gpu) for step in found.steps] == [(1, None if lost else 501.5), (2, 502.5)]


def test_a_digit_behind_many_lines_of_its_shape_is_seen() -> None:
    line = (
        "h{at}:{at}:{at} [0] NCCL INFO 16 coll channels, 16 collnet channels, {nvls} nvls channels, 16 p2p channels\n"
    )
    log = "".join(line.format(at=at, nvls=0) for at in range(500)) + line.format(at=500, nvls=16)
    assert read(log.encode()).transport["nvls"] is True


def test_what_is_skipped_changes_no_fact() -> None:
    """The facts of a log are the same behind a thousand lines of the same shapes, and between them."""
    info = (DATA / "nccl-info-efa-libfabric.log").read_bytes()
    whole = read(info)
    noise = [line for line in info.splitlines(keepends=True) if b"Channel" in line or b"Using network" in line]
    for log in (b"".join(noise) * 400 + info, b"".join(line + b"".join(noise) * 40 for line in info.splitlines(True))):
        found = read(log)
        assert (found.transport, found.errors, set(found.hosts)) == (whole.transport, whole.errors, set(whole.hosts))


def test_memory_does_not_grow_with_the_log() -> None:
    def stream(lines: int) -> Iterator[bytes]:
        for at in range(lines):
            rank = at % 4096
            yield (
                f"h{rank // 8}:{rank}:{rank} [{rank % 8}] NCCL INFO Channel {at % 32:02d}/0 : {rank}[0] -> "
                f"{(rank + 1) % 4096}[0] [send] via NET/IB/{rank % 8}/GDRDMA\n"
            ).encode()

    peaks = []
    for lines in (20_000, 120_000):
        tracemalloc.start()
        found = read(stream(lines))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.transport["networks_used"] == ["NET/IB/GDRDMA"]
        assert len(found.hosts) == 512
    assert peaks[1] < 1.5 * peaks[0]
