"""Whole runs of `workloads/collectives.py`: real processes, real sockets, through the local cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cluster import Run, RunState, Stop, Workload
from cluster.local import LocalCluster
from workloads import PROGRAMS
from workloads.collectives import COLLECTIVES, HEADER

SWEEP = ("--begin=1K", "--end=256K", "--factor=16", "--iters=2", "--warmup=1", "--cycles=2", "--timeout=60")
SIZES = [1024, 16384, 262144]
RANK_0 = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}


def run(collective: str, fault: str = "", ranks: int = 1, stall_limit_s: float = 30.0) -> Run:
    """On two nodes; the same run is made once."""
    return _run(collective, fault, ranks, stall_limit_s)


@cache
def _run(collective: str, fault: str, ranks: int, stall_limit_s: float) -> Run:
    workload = Workload(
        name="collectives",
        case="collectives",
        entry=collective,
        framework="torch",
        program="collectives.py",
        nodes=("local-0", "local-1"),
        ranks_per_node=ranks,
        backend="gloo",
        arguments=(f"--collective={collective}", *SWEEP),
        env={"CLUSTERPROOF_FAULT": fault},
        stall_limit_s=stall_limit_s,
    )
    return LocalCluster(gpus="none").run(workload, Stop(), lambda _line: None)


def result(ended: Run) -> dict[str, Any]:
    lines = [line for line in ended.log.decode().splitlines() if line.startswith("CLUSTERPROOF-RESULT ")]
    assert len(lines) == 1
    found: dict[str, Any] = json.loads(lines[0].removeprefix("CLUSTERPROOF-RESULT "))
    return found


def rows(ended: Run) -> list[list[str]]:
    return [line.split() for line in ended.log.decode().splitlines() if re.match(r" +\d+ +\d+ +float", line)]


@pytest.mark.parametrize(
    ("collective", "ranks"),
    [
        ("all_gather", 1),
        ("alltoall", 1),
        *(pytest.param(collective, 2, marks=pytest.mark.slow) for collective in sorted(COLLECTIVES)),
    ],
)
def test_every_collective_is_measured_and_right(collective: str, ranks: int) -> None:
    ended = run(collective, ranks=ranks)
    assert ended.state is RunState.SUCCEEDED, ended.message
    said = result(ended)
    assert said["complete"]
    assert said["sizes"] == SIZES
    assert said["nodes"] == ["local-0", "local-1"]
    assert [who["node"] for who in said["per_rank"]] == ["local-0"] * ranks + ["local-1"] * ranks
    assert {who["wrong"] for who in said["per_rank"]} == {0}
    assert all(who["time_us"] > 0 for who in said["per_rank"])
    assert [cycle["cycle"] for cycle in said["cycles"]] == [0, 1]
    for cycle in said["cycles"]:
        assert [row["size"] for row in cycle["rows"]] == SIZES
        for row in cycle["rows"]:
            assert row["busbw"] == pytest.approx(
                row["algbw"] * COLLECTIVES[collective].factor(2 * ranks), rel=0.01, abs=2e-6
            )
            assert row["algbw"] == pytest.approx(row["size"] / row["time_us"] / 1e3, rel=0.01, abs=2e-6)
            assert (row["in_place"] is not None) == COLLECTIVES[collective].in_place


def test_the_table_is_that_of_nccl_tests() -> None:
    ended = run("all_gather")
    text = ended.log.decode()
    assert HEADER in text
    assert [row[:5] for row in rows(ended)] == [[str(size), str(size // 8), "float", "none", "-1"] for size in SIZES]
    assert {len(row) for row in rows(ended)} == {13}
    assert "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : " in text
    assert "#  Rank  1 Group  0 Pid " in text


def test_the_result_carries_the_proof_of_every_node() -> None:
    said = result(run("all_gather"))
    assert said["proof"]["shapes"][0]["nodes"] == ["local-0", "local-1"]
    assert said["proof"]["traffic"]["local-0"]["lo"]["sent_bytes"] > 262144
    assert "troubles" not in said["proof"]
    assert said["transport"] == {"backend": "gloo", "interface": "lo"}


@pytest.mark.slow
def test_the_program_runs_without_its_companion(tmp_path: Path) -> None:
    copy = shutil.copy(PROGRAMS / "collectives.py", tmp_path)
    done = subprocess.run(
        [sys.executable, str(copy), "--end=1K", "--iters=1"],
        env={**os.environ, **RANK_0, "MASTER_PORT": "29616"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "CLUSTERPROOF-RESULT" in done.stdout
    assert '"proof"' not in done.stdout


def test_a_collective_without_in_place_form_says_so() -> None:
    assert [row[9:] for row in rows(run("alltoall"))] == [["N/A"] * 4] * 3


def test_the_table_shows_the_mean_of_the_cycles() -> None:
    ended = run("all_gather")
    for index, row in enumerate(rows(ended)):
        times = [cycle["rows"][index]["time_us"] for cycle in result(ended)["cycles"]]
        assert float(row[5]) == pytest.approx(sum(times) / len(times), rel=0.01)


def test_a_killed_rank_fails_the_run_in_its_own_name() -> None:
    ended = run("all_reduce", "kill:rank=1,after=16K")
    assert ended.state is RunState.FAILED
    assert ended.message.startswith("rank 1 on local-1 killed by signal 9")
    assert [row[0] for row in rows(ended)] == ["1024", "16384"]
    assert b"CLUSTERPROOF-RESULT" not in ended.log
    assert ended.exits[0].code == 1
    assert "all_reduce of 262144 bytes, out of place, cycle 0: " in ended.exits[0].reason


def test_a_rank_that_hangs_is_found_by_the_step_it_is_in() -> None:
    ended = run("all_gather", "hang:rank=1,after=1K", stall_limit_s=3.0)
    assert ended.state is RunState.STALLED
    assert "rank 1 on local-1 behind the others" in ended.message
    assert not [exit_ for exit_ in ended.exits if exit_.code]
    assert [exit_.reason.startswith("ended by clusterproof, behind the others; ") for exit_ in ended.exits] == [
        False,
        True,
    ]
    assert b"CLUSTERPROOF-ENDED" in ended.log
    assert b"CLUSTERPROOF-ERROR" not in ended.log  # the leader did nothing wrong


def test_a_wrong_sum_is_counted_where_it_is() -> None:
    ended = run("all_reduce", "corrupt:node=local-1,after=16K")
    assert ended.state is RunState.SUCCEEDED
    said = result(ended)
    assert [who["wrong"] for who in said["per_rank"]] == [0, 4]  # two cycles, out of place and in place
    assert [row["wrong"] for row in said["cycles"][0]["rows"]] == [0, 0, 1]
    assert [row[8] for row in rows(ended)] == ["0", "0", "2"]
    assert b"# Out of bounds values : 4 FAILED" in ended.log


@pytest.mark.slow
def test_a_sweep_cut_short_has_no_result_line() -> None:
    ended = run("broadcast", "stop-early:after=16K")
    assert [row[0] for row in rows(ended)] == ["1024", "16384"]
    assert b"CLUSTERPROOF-RESULT" not in ended.log
    assert b"# Avg bus bandwidth" not in ended.log


def alone(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The file by itself, somewhere else, as in an image."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, str(PROGRAMS / "collectives.py"), *arguments]
    return subprocess.run(command, env=clean | env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        ([], {}, "RANK, WORLD_SIZE, MASTER_ADDR not set"),
        (["--end=-1"], RANK_0, "--end"),
        pytest.param(["--backend=nccl"], RANK_0 | {"MASTER_PORT": "29611"}, "needs a GPU", marks=pytest.mark.slow),
        pytest.param(["--collective=sendrecv"], RANK_0, "sendrecv needs at least 2 ranks", marks=pytest.mark.slow),
        (["--begin=4T", "--end=4T"], RANK_0 | {"MASTER_PORT": "29612"}, "do not fit into the"),
        pytest.param(
            ["--timeout=1"],
            RANK_0 | {"WORLD_SIZE": "2", "MASTER_PORT": "29613"},
            "rendezvous of 2 ranks at 127.0.0.1",
            marks=pytest.mark.slow,
        ),
        ([], RANK_0 | {"CLUSTERPROOF_FAULT": "explode"}, "CLUSTERPROOF_FAULT='explode'"),
    ],
)
def test_what_cannot_run_is_one_sentence_and_one_json_line(
    arguments: list[str], env: dict[str, str], words: str
) -> None:
    done = alone(*arguments, **env)
    assert done.returncode == 1
    assert words in json.loads(done.stdout.splitlines()[-1].removeprefix("CLUSTERPROOF-ERROR "))["what"]
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_a_missing_pytorch_is_said(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')")
    done = alone(**RANK_0, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "PyTorch cannot be imported" in done.stderr
    assert "libcudart.so.12" in done.stderr


@pytest.mark.slow
def test_by_hand_wrong_elements_are_a_failure() -> None:
    sweep = ("--begin=1K", "--end=1K", "--iters=1")
    assert alone(*sweep, **RANK_0, MASTER_PORT="29614").returncode == 0
    broken = alone(*sweep, **RANK_0, MASTER_PORT="29615", CLUSTERPROOF_FAULT="corrupt")
    assert broken.returncode == 1
    assert "FAILED" in broken.stdout


@pytest.mark.slow
def test_torchrun_can_start_it() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(PROGRAMS / "collectives.py"), *SWEEP], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert '"world_size":2' in done.stdout
