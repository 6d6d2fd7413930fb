from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import ClusterError, Run, RunState, Stop, Workload
from cluster.local import Gpu, LocalCluster, endings, find_gpus
from cluster.local.cluster import Ports, rank_env
from cluster.local.gpus import parse_nvidia_smi
from cluster.model import RankExit
from tests.cluster.test_contract import MARK, LocalLab

HERE = Path(__file__).parent
H100 = Gpu("NVIDIA H100 80GB HBM3", "GPU-1", "570.86.15")


def quiet(_line: str) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.local.supervisor.FAILURE_GRACE_S", 0.3)


def workload(program: str, nodes: int = 2, *, env: Mapping[str, str] | None = None, **limits: float) -> Workload:
    made = Workload(
        name="local",
        case="local",
        entry="stand-in",
        framework="exec" if " " in program else "torch",
        program=program,
        nodes=tuple(f"local-{index}" for index in range(nodes)),
        ranks_per_node=1,
        backend="gloo",
        env={"CONTRACT": MARK, **(env or {})},
    )
    return replace(made, **limits)  # type: ignore[arg-type]


def run(program: str, folder: Path = HERE, nodes: int = 2, **limits: float) -> Run:
    return LocalCluster(gpus="none", programs=folder).run(workload(program, nodes, env=None, **limits), Stop(), quiet)


def program(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(f"import os, signal, subprocess, sys, time\nrank = os.environ['RANK']\n{text}")
    return "program.py"


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_gpus_of_the_machine_are_one_node() -> None:
    inventory = LocalCluster(find=lambda: (H100,) * 8).nodes()
    assert [(node.accelerators, node.product) for node in inventory.nodes] == [(8, "NVIDIA-H100-80GB-HBM3")]
    assert inventory.versions["driver"] == "570.86.15"


def test_without_gpus_there_are_as_many_cpu_nodes_as_asked_for() -> None:
    nodes = LocalCluster(local_nodes=12, find=lambda: ()).nodes().nodes
    assert [node.name for node in nodes] == [f"local-{index}" for index in range(12)]
    assert not any(node.accelerators for node in nodes)


def test_gpus_can_be_left_alone() -> None:
    assert len(LocalCluster(local_nodes=3, gpus="none", find=lambda: (H100,)).nodes().nodes) == 3


def test_no_nodes_are_refused() -> None:
    with pytest.raises(ClusterError, match="--local-nodes: expected at least 1"):
        LocalCluster(local_nodes=0)


def test_nvidia_smi_is_read_and_its_warnings_are_no_gpus() -> None:
    text = (
        "WARNING: infoROM is corrupted\nNVIDIA H200, GPU-a, 575.1\nNVIDIA H200, GPU-b, 575.1\nNo devices were found\n"
    )
    assert parse_nvidia_smi(text) == [Gpu("NVIDIA H200", "GPU-a", "575.1"), Gpu("NVIDIA H200", "GPU-b", "575.1")]


def test_a_way_that_fails_leaves_the_next_one_to_ask() -> None:
    def broken() -> list[Gpu]:
        raise OSError("driver not loaded")

    assert find_gpus((broken, list, lambda: [H100])) == (H100,)
    assert find_gpus((broken,)) == ()


# -- launching ---------------------------------------------------------------------------------------------------------


def test_a_rank_gets_what_pytorch_needs_and_nothing_of_a_launcher_above_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "this")
    env = rank_env(workload("ranks.py", nodes=3, env={"OMP_NUM_THREADS": "4"}), 2, 1234)
    assert (
        env.items()
        >= {
            "RANK": "2",
            "WORLD_SIZE": "3",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "1234",
            "CLUSTERPROOF_NODE": "local-2",
            "OMP_NUM_THREADS": "4",
        }.items()
    )
    assert not {"TORCHELASTIC_USE_AGENT_STORE", "PYTEST_CURRENT_TEST"} & env.keys()


def test_ports_are_not_given_twice() -> None:
    ports = Ports()
    assert len({ports.take() for _ in range(50)}) == 50


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ClusterError, match=r"pip install 'clusterproof\[local\]'"):
        run("ranks.py")


def test_gpus_with_a_pytorch_for_cpus_are_the_users_affair_and_no_fault_of_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2.13.0+cpu")
    nccl = replace(workload("ranks.py", nodes=1), backend="nccl")
    with pytest.raises(ClusterError, match="built for CPUs only"):
        LocalCluster(find=lambda: (H100,) * 8).run(nccl, Stop(), quiet)


def test_a_command_runs_once_a_rank() -> None:
    ended = run(f"{sys.executable} -c 'import os; print(os.environ[\"RANK\"])'")
    assert (ended.state, ended.log) == (RunState.SUCCEEDED, b"0\n")


def test_a_framework_that_needs_a_cluster_is_a_failed_launch() -> None:
    mpi = Workload("w", "c", "e", "mpi", "all_reduce_perf", ("local-0",), 1, "nccl")
    ended = LocalCluster(gpus="none").run(mpi, Stop(), quiet)
    assert ended.state is RunState.LAUNCH_FAILED
    assert "'mpi'" in ended.message


def test_a_port_taken_in_between_is_tried_again(tmp_path: Path) -> None:
    text = """
if not os.path.exists("tried"):
    open("tried", "w").close()
    sys.exit("EADDRINUSE: address already in use")
"""
    name = program(tmp_path, text.replace('"tried"', repr(str(tmp_path / "tried"))))
    assert run(name, tmp_path, nodes=1).state is RunState.SUCCEEDED


# -- ending ------------------------------------------------------------------------------------------------------------


def test_a_rank_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "if rank == '1': sys.exit('the disk is on fire')\ntime.sleep(30)"), tmp_path)
    assert ended.state is RunState.FAILED
    assert "rank 1 on local-1 exited with 1: the disk is on fire" in ended.message
    assert ended.tails["local-1"] == "the disk is on fire"


def test_a_rank_that_we_ended_is_no_failure(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "if rank == '1': sys.exit(7)\ntime.sleep(30)"), tmp_path)
    assert [(exit_.code, exit_.reason) for exit_ in ended.exits] == [(None, endings.ENDED_BY_US), (7, "exited with 7")]


def test_a_run_over_its_time_is_ended(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "while True: print('row', flush=True); time.sleep(0.1)"), tmp_path, time_limit_s=1.0)
    assert (ended.state, ended.message) == (RunState.TIMED_OUT, "not done in 1 s")


def test_a_leader_that_never_speaks_has_stalled(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "time.sleep(30)"), tmp_path, start_limit_s=0.5, stall_limit_s=20.0)
    assert (ended.state, ended.message) == (RunState.STALLED, "no output at all for 0.5 s")


def test_output_of_other_ranks_does_not_hide_a_silent_leader(tmp_path: Path) -> None:
    text = (
        "print('hello', flush=True)\nwhile True:\n    time.sleep(0.1)\n    if rank == '1': print('alive', flush=True)"
    )
    assert run(program(tmp_path, text), tmp_path, stall_limit_s=1.0).state is RunState.STALLED


def test_a_rank_deaf_to_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    text = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"])
print("up", flush=True)
time.sleep(60)
"""
    ended = run(program(tmp_path, text), tmp_path, stall_limit_s=0.5)
    assert ended.state is RunState.STALLED
    assert not ended.leftovers
    assert not LocalLab().processes()


def test_temporary_files_of_killed_ranks_are_removed(tmp_path: Path) -> None:
    text = "import tempfile\nprint(tempfile.mkdtemp(), flush=True)\nos.kill(os.getpid(), 9)"
    folder = Path(run(program(tmp_path, text), tmp_path).log.decode().strip())
    assert folder.parent.name.startswith("clusterproof-")
    assert not folder.parent.exists()


def test_a_child_that_outlives_its_rank_does_not_hold_the_run(tmp_path: Path) -> None:
    text = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\nprint('done', flush=True)"
    ended = run(program(tmp_path, text), tmp_path)
    assert (ended.state, ended.log) == (RunState.SUCCEEDED, b"done\n")
    assert not LocalLab().processes()


def test_a_long_log_is_kept_whole_and_a_long_tail_is_not(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "for i in range(200000): print(i)\nif rank == '1': sys.exit(1)"), tmp_path)
    assert ended.log == "".join(f"{number}\n" for number in range(200000)).encode()
    assert len(ended.exits[1].tail) < 9000
    assert ended.state is RunState.FAILED


def test_ranks_die_with_the_one_who_runs_them(tmp_path: Path) -> None:
    text = f"""
from pathlib import Path
from cluster import Stop
from cluster.local import LocalCluster
from tests.cluster.test_local import workload
slow = workload("ranks.py", env={{"CLUSTERPROOF_FAULT": "slow:", "CONTRACT": {MARK!r}}})
LocalCluster(gpus="none", programs=Path({str(HERE)!r})).run(slow, Stop(), lambda line: print(line, flush=True))
"""
    root = HERE.parent.parent
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", text], cwd=root, env=env, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout
        while not runner.stdout.readline().startswith("running"):
            assert runner.poll() is None
        assert LocalLab().running()
        runner.send_signal(signal.SIGKILL)
    assert not LocalLab().processes()


def test_closing_the_cluster_ends_its_runs(tmp_path: Path) -> None:
    cluster = LocalCluster(gpus="none", programs=tmp_path)
    name = program(tmp_path, "print('up', flush=True)\ntime.sleep(60)")
    ended = cluster.run(workload(name), Stop(), lambda line: cluster.close() if line.startswith("running") else None)
    assert (ended.state, ended.message) == (RunState.CANCELLED, "the cluster was closed")


def test_sixteen_runs_at_once_are_sixteen_runs(tmp_path: Path) -> None:
    cluster = LocalCluster(local_nodes=16, gpus="none", programs=tmp_path)
    name = program(tmp_path, "print(os.environ['CLUSTERPROOF_NODE'], os.environ['MASTER_PORT'])")
    logs: dict[int, list[bytes]] = {}

    def go(index: int) -> None:
        single = Workload("w", "c", "e", "torch", name, (f"local-{index}",), 1, "gloo", env={"CONTRACT": MARK})
        logs[index] = cluster.run(single, Stop(), quiet).log.split()

    threads = [threading.Thread(target=go, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [logs[index][0].decode() for index in range(16)] == [f"local-{index}" for index in range(16)]
    assert len({log[1] for log in logs.values()}) == 16


# -- what the ends say -------------------------------------------------------------------------------------------------


def ended(rank: int, code: int | None, tail: str, at: float = 1.0) -> RankExit:
    return RankExit(rank, f"node-{rank}", code, "", tail, at)


def said(step: int, what: str) -> str:
    return f'noise\nCLUSTERPROOF-ERROR {{"schema": "clusterproof.error/v1", "step": {step}, "what": "{what}"}}'


@pytest.mark.parametrize(
    ("code", "tail", "words"),
    [
        (0, "whatever", ""),
        (-9, "row", "killed by signal 9 (SIGKILL)"),
        (-64, "", "killed by signal 64 (SIGRTMAX)"),
        (1, "row\n" + said(3, "no GPU"), "exited with 1: no GPU"),
        (1, "row\nOut of memory\n\n", "exited with 1: Out of memory"),
        (2, "", "exited with 2"),
        (1, 'CLUSTERPROOF-ERROR {"torn', 'exited with 1: CLUSTERPROOF-ERROR {"torn'),
    ],
)
def test_a_reason_is_in_the_ranks_own_words(code: int, tail: str, words: str) -> None:
    assert endings.reason(code, tail) == words


def test_the_first_failure_is_the_earliest_and_never_one_that_we_ended() -> None:
    exits = [ended(0, 1, "", at=3.0), ended(1, None, "", at=0.5), ended(2, -9, "", at=2.0), ended(3, 0, "", at=0.1)]
    first = endings.first(exits)
    assert first
    assert first.node == "node-2"
    assert endings.first([ended(0, 0, ""), ended(1, None, "")]) is None


def test_who_did_fewer_steps_than_the_others_is_behind() -> None:
    exits = [ended(rank, None, said(7 if rank == 2 else 8, f"waiting {rank}")) for rank in range(4)]
    assert endings.behind(exits) == [exits[2]]
    assert endings.late(exits) == "rank 2 on node-2 behind the others: waiting 2"
    assert endings.late([ended(rank, None, said(8, "waiting")) for rank in range(4)]) == ""
    assert endings.late([ended(0, None, "no words"), ended(1, None, "")]) == ""


class Dead:
    def __init__(self, rank: int, code: int, words: str) -> None:
        self.rank, self.code, self._words = rank, code, words

    def last_lines(self) -> str:
        return self._words


def test_of_ranks_found_dead_together_those_who_blame_a_peer_come_last() -> None:
    dead = [
        Dead(0, 1, said(8, "Connection closed by peer [127.0.0.1]:1")),
        Dead(1, 1, "Read error: Connection reset by peer"),
        Dead(2, 1, said(8, "CUDA error: uncorrectable ECC error encountered")),
        Dead(3, 1, said(8, "Timed out waiting 5000ms for recv operation to complete")),
    ]
    assert [rank.rank for rank in endings.order(dead)] == [2, 0, 1, 3]  # type: ignore[arg-type]
    killed = Dead(3, -9, "")
    assert endings.order([*dead[:3], killed])[0] is killed  # type: ignore[comparison-overlap, list-item]


def test_this_test_module_leaves_no_process() -> None:
    assert not LocalLab().processes()
