"""`workloads/proof.py` on a recorded /sys, on debug files, and on an NVML that answers only some questions."""

from __future__ import annotations

import ast
import json
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import measure
from workloads import proof

DATA = Path(__file__).parent.parent / "data"
TREE = DATA / "sys" / "gpu-node"
FABRIC = (DATA / "nccl-debug" / "fabric-rank-0.log").read_text(encoding="utf-8")
SOCKET = (DATA / "nccl-debug" / "socket-rank-3.log").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the recorded /sys that may change during the test."""
    return Path(shutil.copytree(TREE, tmp_path / "sys"))


def put(tree: Path, counter: str, value: str) -> None:
    (tree / "class" / counter).write_text(value + "\n", encoding="utf-8")


def test_the_companion_needs_nothing_but_python() -> None:
    source = ast.parse(Path(proof.__file__).read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(source)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported <= sys.stdlib_module_names | {"pynvml", "__future__"}


# -- NICs and interfaces -----------------------------------------------------------------------------------------------


def test_adapters_are_read_with_their_rate_state_and_identity() -> None:
    facts, _ = proof.nics(TREE)
    assert list(facts) == ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"]
    assert [fact["rate_gbps"] for fact in facts.values()] == [400.0, 200.0, 100.0, 10.0]
    assert facts["mlx5_0/1"] == {
        "link_layer": "InfiniBand",
        "rate_gbps": 400.0,
        "lanes": "400 Gb/sec (4X NDR)",
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "firmware": "28.43.2026",
        "board": "MT_0000000838",
        "guid": "a088:c203:00aa:bb00",
    }
    assert facts["mlx5_3/1"]["state"] == "DOWN"


def test_data_counters_are_words_of_four_bytes() -> None:
    _, counters = proof.nics(TREE)
    assert counters["mlx5_0/1"]["sent_bytes"] == 4000
    assert counters["mlx5_0/1"]["received_bytes"] == 8000


def test_what_is_no_counter_is_absent_and_never_zero() -> None:
    _, counters = proof.nics(TREE)
    assert counters["mlx5_2/1"] == {"local_ack_timeout_err": 3, "np_cnp_sent": 100, "out_of_sequence": 0}


def test_only_hardware_interfaces_are_watched_unless_one_is_named() -> None:
    assert list(proof.interfaces(TREE)[0]) == ["eth0"]
    assert list(proof.interfaces(TREE, ["veth1a2b", ""])[0]) == ["eth0", "veth1a2b"]
    assert proof.interfaces(TREE)[0]["eth0"] == {"mtu": 9000, "gbps": 100.0, "state": "up"}


def test_where_no_interface_is_hardware_all_but_the_loopback_are_watched(tree: Path) -> None:
    shutil.rmtree(tree / "class" / "net" / "eth0" / "device")
    assert list(proof.interfaces(tree)[0]) == ["eth0", "veth1a2b"]


def test_a_machine_without_anything_has_nothing(tmp_path: Path) -> None:
    said = proof.Node(tmp_path).proof()
    assert said == {"shape": {}, "identity": {}, "moved": [], "traffic": {}, "throttled": {}}


@pytest.mark.parametrize("text", ["", "N/A (no PMA)", "4X", "0x10", "1 2"])
def test_a_file_without_a_whole_number_is_no_counter(tmp_path: Path, text: str) -> None:
    (tmp_path / "counter").write_text(text)
    assert proof.whole(tmp_path / "counter") is None
    assert proof.whole(tmp_path / "absent") is None


# -- before and after --------------------------------------------------------------------------------------------------


def test_counters_that_moved_are_named_with_their_kind_the_worst_first(tree: Path) -> None:
    node = proof.Node(tree)
    put(tree, "infiniband/mlx5_0/ports/1/counters/port_xmit_wait", "90")
    put(tree, "infiniband/mlx5_1/ports/1/counters/symbol_error", "7")
    put(tree, "infiniband/mlx5_2/ports/1/hw_counters/local_ack_timeout_err", "4")
    put(tree, "infiniband/mlx5_0/ports/1/counters/port_xmit_data", "251000")
    put(tree, "net/eth0/statistics/rx_crc_errors", "2")
    said = node.proof()
    assert [(entry["device"], entry["counter"], entry["kind"], entry["delta"]) for entry in said["moved"]] == [
        ("eth0", "rx_crc_errors", "error", 2),
        ("mlx5_1/1", "symbol_error", "error", 7),
        ("mlx5_2/1", "local_ack_timeout_err", "retry", 1),
        ("mlx5_0/1", "port_xmit_wait", "congestion", 40),
    ]
    assert said["traffic"]["mlx5_0/1"] == {"sent_bytes": 1_000_000, "received_bytes": 0}
    assert said["traffic"]["eth0"] == {"sent_bytes": 0, "received_bytes": 0}


def test_a_counter_that_was_reset_counts_from_zero(tree: Path) -> None:
    node = proof.Node(tree)
    put(tree, "infiniband/mlx5_0/ports/1/counters/link_downed", "0")
    put(tree, "infiniband/mlx5_1/ports/1/counters/port_xmit_wait", "3")
    assert [(entry["device"], entry["delta"]) for entry in node.proof()["moved"]] == [("mlx5_1/1", 3)]


def test_a_device_that_came_or_went_moves_nothing(tree: Path) -> None:
    node = proof.Node(tree)
    shutil.rmtree(tree / "class" / "infiniband" / "mlx5_0")
    shutil.copytree(TREE / "class" / "infiniband" / "mlx5_0", tree / "class" / "infiniband" / "mlx5_9")
    said = node.proof()
    assert said["moved"] == []
    assert "mlx5_0/1" not in said["shape"]
    assert "mlx5_9/1" in said["shape"]


def test_every_counter_has_one_kind() -> None:
    assert len(proof.KIND) == sum(len(counters) for counters in proof.KINDS.values())


def test_nodes_of_one_shape_are_told_once_and_the_odd_one_last(tree: Path, tmp_path: Path) -> None:
    good = proof.Node(TREE).proof()
    put(tree, "infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (2X NDR)")
    put(tree, "infiniband/mlx5_0/node_guid", "a088:c203:00aa:ffff")
    bad = proof.Node(tree).proof()
    told = proof.gather({"a": good, "bad": bad, "b": good})
    assert [group["nodes"] for group in told["shapes"]] == [["a", "b"], ["bad"]]
    assert told["identity"]["bad"]["mlx5_0/1"] == {"guid": "a088:c203:00aa:ffff"}
    assert told["moved"] == {}
    assert json.loads(json.dumps(told)) == told
    assert proof.gather({"a": good}, identities=False).keys() == {"shapes", "moved", "throttled"}


def test_another_identity_is_no_other_shape(tree: Path) -> None:
    put(tree, "infiniband/mlx5_0/node_guid", "a088:c203:00aa:ffff")
    told = proof.gather({"a": proof.Node(TREE).proof(), "b": proof.Node(tree).proof()})
    assert len(told["shapes"]) == 1


# -- GPUs --------------------------------------------------------------------------------------------------------------


class Nvml:
    """Two GPUs; what a driver or product does not support raises, as NVML does."""

    NVML_VOLATILE_ECC = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_NVLINK_ERROR_DL_REPLAY = 0

    def __init__(self) -> None:
        self.replays = [0, 0]
        self.ecc = [0, 0]
        self.reasons = [0x4, 0x4]  # at their power limit: at work
        self.seen = threading.Event()

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"580.82.07"

    def nvmlDeviceGetName(self, _handle: int) -> str:  # noqa: N802
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=f"00000000:0{handle}:00.0")

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:  # noqa: N802
        return 16 if handle == 0 else 8

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= 4:
            raise RuntimeError("Invalid Argument")
        return int(not (handle == 1 and link == 3))

    def nvmlDeviceGetNvLinkErrorCounter(self, handle: int, link: int, _code: int) -> int:  # noqa: N802
        if link >= 4:
            raise RuntimeError("Invalid Argument")
        return self.replays[handle] if link == 0 else 0

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, _volatile: int) -> int:  # noqa: N802
        return self.ecc[handle] if kind == 1 else 0

    def nvmlDeviceGetRemappedRows(self, _handle: int) -> tuple[int, int, int, int]:  # noqa: N802
        raise RuntimeError("Not Supported")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        if handle:
            self.seen.set()
        return self.reasons[handle]


def test_gpus_answer_what_they_can_and_are_silent_on_the_rest() -> None:
    facts = proof.Gpus(Nvml()).facts()
    assert facts["gpu1"] == {
        "product": "NVIDIA H100 80GB HBM3",
        "driver": "580.82.07",
        "pcie_width": 8,
        "nvlinks_up": 3,
        "uuid": "GPU-1",
        "pci": "00000000:01:00.0",
    }


def test_errors_and_throttling_of_a_gpu_during_the_run_are_told(tmp_path: Path) -> None:
    nvml = Nvml()
    node = proof.Node(tmp_path, proof.Gpus(nvml))
    nvml.replays[1], nvml.ecc[0], nvml.reasons[1] = 5, 1, 0x4 | 0x40 | 0x80
    node.watch(interval_s=0.01)
    assert nvml.seen.wait(10)
    said = node.proof()
    assert [(entry["device"], entry["counter"], entry["delta"]) for entry in said["moved"]] == [
        ("gpu0", "ecc_uncorrected", 1),
        ("gpu1", "nvlink_replay_errors", 5),
    ]
    assert said["throttled"] == {"gpu1": ["hw_thermal", "power_brake"]}
    assert said["identity"]["gpu0"] == {"uuid": "GPU-0", "pci": "00000000:00:00.0"}


def test_without_a_driver_there_are_no_gpus() -> None:
    assert proof.Gpus.find() is None


# -- NCCL's debug file -------------------------------------------------------------------------------------------------


def test_a_debug_file_says_what_was_used() -> None:
    assert proof.digest(FABRIC) == {
        "nccl_version": "2.28.9+cuda13.0",
        "net_plugin": "IB",
        "devices": ["mlx5_0:1/IB", "mlx5_1:1/IB", "mlx5_3:1/IB", "mlx5_4:1/IB"],
        "nvls": True,
        "mnnvl": False,
        "networks_used": ["NET/IB/GDRDMA", "P2P/CUMEM"],
        "fallback_to_socket": False,
        "gdr": True,
        "coll_channels": 16,
        "algorithms": ["AllReduce NVLSTREE SIMPLE", "AllReduce TREE LL"],
    }


def test_a_fall_back_to_sockets_and_the_warnings_are_told() -> None:
    said = proof.digest(SOCKET)
    assert (said["net_plugin"], said["devices"], said["gdr"]) == ("Socket", ["eth0", "eth1"], False)
    assert said["fallback_to_socket"] is True
    assert said["warnings"] == ["socketProgress: Connection closed by remote peer gpu-node-1<40212>"]


@pytest.mark.parametrize("text", [FABRIC, SOCKET])
def test_the_digest_agrees_with_the_suites_own_reader(text: str) -> None:
    said, read = proof.digest(text), measure.read(text.encode()).transport
    shared = {"net_plugin", "devices", "gdr", "mnnvl", "coll_channels", "fallback_to_socket", "networks_used"}
    for key in shared & said.keys():
        assert sorted(said[key]) == sorted(read[key]) if isinstance(said[key], list) else said[key] == read[key], key


def test_an_empty_file_says_nothing() -> None:
    assert proof.digest("") == {}
    assert proof.merge([("a", {}), ("b", {})]) == {}


def test_the_majority_speaks_and_the_others_are_named() -> None:
    odd = {**proof.digest(FABRIC), "devices": ["mlx5_0:1/IB"], "nvls": False}
    merged = proof.merge(
        [("a", proof.digest(FABRIC)), ("b", proof.digest(FABRIC)), ("c", odd), ("d", proof.digest(SOCKET))]
    )
    assert merged["net_plugin"] == "IB"
    assert merged["fallback_to_socket"] is True
    assert merged["fallback_nodes"] == ["d"]
    assert merged["differs"]["devices"] == ["c", "d"]
    assert merged["differs"]["nvls"] == ["c"]
    assert "NET/Socket" in merged["networks_used"]
    assert "warnings" not in merged


def test_the_debug_file_is_asked_for_unless_somebody_wants_it_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env: dict[str, str] = {}
    proof.DebugFile(env)
    assert env["NCCL_DEBUG"] == "INFO"
    assert Path(env["NCCL_DEBUG_FILE"]).parent == tmp_path
    for wanted in ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/elsewhere"}):
        env = dict(wanted)
        proof.DebugFile(env)
        assert env == wanted


def test_a_read_only_container_gets_no_debug_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", none)
    env: dict[str, str] = {}
    rank = proof.Proof(env)
    assert env == {}
    assert rank.statement("a")["trouble"] == ""


def test_warnings_are_passed_on_once_and_only_when_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env: dict[str, str] = {}
    rank = proof.Proof(env)
    rank.relay()
    first, second = "host:1:1 [0] NCCL WARN first\n", "host:1:1 [0] NCCL WARN second\n"
    with Path(env["NCCL_DEBUG_FILE"]).open("w", encoding="utf-8") as file:
        for text in (first + "host:1:1 [0] NCCL INFO noise\n" + second[:12], second[12:]):
            file.write(text)
            file.flush()
            rank.relay()
            rank.relay()
    assert capsys.readouterr().err == first + second
    rank.close()
    assert not list(tmp_path.iterdir())


# -- one rank's part ---------------------------------------------------------------------------------------------------


def test_ranks_state_and_one_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env: dict[str, str] = {}
    rank = proof.Proof(env)
    Path(env["NCCL_DEBUG_FILE"]).write_text(FABRIC, encoding="utf-8")
    rank.watch(gpus=False, interfaces=["lo"])
    statement = rank.statement("a")
    assert statement["trouble"] == ""
    merged = rank.merge([statement, {"node": "a", "proof": None, "digest": {}, "trouble": ""}], identities=True)
    assert merged["transport"]["net_plugin"] == "IB"
    assert merged["proof"]["shapes"][0]["nodes"] == ["a"]
    assert "troubles" not in merged["proof"]


def test_trouble_is_noted_and_costs_no_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(*_arguments: Any, **_named: Any) -> None:
        raise ValueError("a file nobody has seen yet")

    monkeypatch.setattr(proof, "nics", broken)
    rank = proof.Proof({})
    rank.watch(gpus=False, interfaces=[])
    statement = rank.statement("a")
    assert statement["trouble"] == "ValueError: a file nobody has seen yet"
    assert rank.merge([statement], identities=True)["proof"]["troubles"] == {
        "a": "ValueError: a file nobody has seen yet"
    }
