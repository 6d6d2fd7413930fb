"""The launcher in the pods: ranks by the node list whatever index a pod got, and nobody left waiting."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import k8s

LAUNCHER = Path(k8s.__file__).with_name("launcher.py")
SHOW = "import os;print(*(os.environ[k] for k in ('RANK','LOCAL_RANK','WORLD_SIZE','CLUSTERPROOF_NODE','MASTER_ADDR')))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(LAUNCHER, tmp_path / "launcher.py")
    (tmp_path / "nodes").write_text("n2\nn10\nn1\n")
    return tmp_path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def launch(folder: Path, node: str, index: int, command: list[str], **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(folder / "launcher.py"), *command],
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "CLUSTERPROOF_NODE": node,
            "CLUSTERPROOF_POD_IP": f"10.0.0.{index}",
            "CLUSTERPROOF_MEETING": "127.0.0.1",
            "JOB_COMPLETION_INDEX": str(index),
            "CLUSTERPROOF_TERMINATION": str(folder / f"end-{node}"),
            **env,
        },
    )


def outcomes(
    folder: Path, indices: dict[str, int], command: list[str], **env: str
) -> dict[str, tuple[int, str, dict[str, Any]]]:
    env.setdefault("CLUSTERPROOF_MEETING_PORT", str(free_port()))
    pods = {node: launch(folder, node, index, command, **env) for node, index in indices.items()}
    found = {}
    for node, pod in pods.items():
        output, _ = pod.communicate(timeout=60)
        note = json.loads((folder / f"end-{node}").read_text())
        assert note["bytes"] == len(output)
        assert note["sha256"] == hashlib.sha256(output).hexdigest()
        found[node] = (pod.returncode, output.decode(), note)
    return found


def test_ranks_follow_the_node_list_and_rank_0s_pod_is_the_master(folder: Path) -> None:
    found = outcomes(folder, {"n1": 0, "n2": 1, "n10": 2}, [sys.executable, "-c", SHOW])
    assert {node: output.strip() for node, (_, output, _) in found.items()} == {
        "n2": "0 0 3 n2 10.0.0.1",
        "n10": "1 0 3 n10 10.0.0.1",
        "n1": "2 0 3 n1 10.0.0.1",
    }
    assert [code for code, _, _ in found.values()] == [0, 0, 0]


def test_local_ranks_are_numbered_within_their_node_and_tagged(folder: Path) -> None:
    (folder / "nodes").write_text("n1\n")
    code, output, note = outcomes(folder, {"n1": 0}, [sys.executable, "-c", SHOW], CLUSTERPROOF_RANKS_PER_NODE="2")[
        "n1"
    ]
    assert code == 0
    assert sorted(output.splitlines()) == ["0 0 2 n1 127.0.0.1", "[1,1]<stdout>: 1 1 2 n1 127.0.0.1"]
    assert note["exits"] == {"0": 0, "1": 0}


def test_the_exit_of_every_rank_is_told_signals_too(folder: Path) -> None:
    (folder / "nodes").write_text("n1\n")
    die = "import os,signal,time;os.kill(os.getpid(),9) if os.environ['RANK']=='1' else time.sleep(60)"
    code, _, note = outcomes(folder, {"n1": 0}, [sys.executable, "-c", die], CLUSTERPROOF_RANKS_PER_NODE="2")["n1"]
    assert code == 137
    assert note["exits"] == {"0": -9, "1": -9}
    assert note["ends"]["1"] < note["ends"]["0"]


def test_a_meeting_without_all_names_who_is_missing(folder: Path) -> None:
    found = outcomes(folder, {"n1": 0, "n2": 1}, ["true"], CLUSTERPROOF_MEETING_S="2")
    for code, output, _ in found.values():
        assert code == 1
        error = json.loads(output.removeprefix("CLUSTERPROOF-ERROR "))
        assert "missing n10" in error["what"]


def test_a_pod_on_a_node_outside_the_group_says_so(folder: Path) -> None:
    code, output, _ = outcomes(folder, {"n7": 0}, ["true"])["n7"]
    assert code == 1
    assert "n7" in output


def test_a_command_that_the_image_lacks_ends_127_for_everybody(folder: Path) -> None:
    found = outcomes(folder, {"n1": 0, "n2": 1, "n10": 2}, ["/no/such/program"])
    assert [code for code, _, _ in found.values()] == [127, 127, 127]
