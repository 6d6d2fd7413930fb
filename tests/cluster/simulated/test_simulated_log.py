"""The log is read by the real readers, and says what the run measured in the real formats."""

from __future__ import annotations

from typing import Any

import pytest

import measure
from tests.cluster.simulated.fabrics import fabric, names, result, run, workload

# The head of nccl-tests 2.17 and later, byte for byte.
HEAD = """\
#                                                              out-of-place                       in-place          \n\
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n\
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n"""  # noqa: E501

COLLECTIVES = [
    "nccl-all-reduce",
    "nccl-all-gather",
    "nccl-reduce-scatter",
    "nccl-alltoall",
    "nccl-broadcast",
    "nccl-sendrecv",
]


def test_the_tables_head_is_that_of_nccl_tests() -> None:
    assert HEAD in run(fabric(), workload(names([0, 1]))).log.decode()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("entry", COLLECTIVES)
def test_the_reader_finds_a_whole_run(entry: str, count: int) -> None:
    done = run(fabric(), workload(names(range(count)), entry, options={"minBytes": "1K", "maxBytes": "16G"}))
    read = measure.read(done.log)
    assert read.complete, read.warnings
    assert read.collective == result(done)["collective"]
    assert (read.ranks, read.nodes, len(read.per_rank)) == (8 * count, count, 8 * count)
    assert not read.errors
    last = read.tables[0].rows[-1]
    assert last.size == result(done)["sizes"][-1]
    assert last.out_of_place is not None
    assert last.out_of_place.busbw == pytest.approx(result(done)["cycles"][0]["rows"][-1]["busbw"], rel=1e-3)


@pytest.mark.parametrize(
    ("entry", "factor"), [("nccl-all-reduce", 30 / 16), ("nccl-all-gather", 15 / 16), ("nccl-sendrecv", 1.0)]
)
def test_time_and_bandwidths_agree_by_the_formulas_of_nccl_tests(entry: str, factor: float) -> None:
    for row in result(run(fabric(noise=0.05), workload(names([0, 1]), entry)))["cycles"][2]["rows"]:
        assert row["algbw"] == pytest.approx(row["size"] / 1e3 / row["time_us"], rel=1e-3)
        assert row["busbw"] == pytest.approx(row["algbw"] * factor, rel=1e-6)


def test_collectives_without_an_in_place_variant_say_so() -> None:
    rows = [
        line.split()
        for line in run(fabric(), workload(names([0, 1]), "nccl-alltoall")).log.decode().splitlines()
        if line.strip()[:1].isdigit()
    ]
    assert all(row[-4:] == ["N/A"] * 4 for row in rows)


@pytest.mark.parametrize(
    ("keys", "nodes", "changes", "expected"),
    [
        ({}, (0, 1), {}, {"net_plugin": "IB", "gdr": True, "mnnvl": False, "fallback_to_socket": False}),
        ({"platform": "aws"}, (0, 1), {}, {"net_plugin": "AWS Libfabric"}),
        ({"platform": "aws", "product": "NVIDIA-GB300"}, (0, 1), {}, {"net_plugin": "IB"}),
        ({"nvlink_domain": 8}, (0, 1), {}, {"mnnvl": True}),
        ({"nvlink_domain": 8}, (0, 1), {"mnnvl": False}, {"mnnvl": False}),
        ({"nvlink_domain": 8}, (0, 9), {}, {"mnnvl": False}),
    ],
)
def test_the_transport_proof_tells_what_was_really_used(
    keys: dict[str, Any], nodes: tuple[int, ...], changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    transport = measure.read(run(fabric(**keys), workload(names(nodes), **changes)).log).transport
    assert {key: transport.get(key) for key in expected} == expected


def test_the_result_line_and_nccls_own_lines_tell_the_same_transport() -> None:
    for work in (
        workload(names([0, 1])),
        workload(names([0]), "nccl-loopback"),
        workload(names([0]), "nccl-loopback-nvswitch"),
    ):
        lines = run(fabric(), work).log.decode().splitlines(keepends=True)
        said = measure.read("".join(lines[:-1]).encode()).transport
        told = result(run(fabric(), work))["transport"]
        for key in ("nccl_version", "net_plugin", "devices", "mnnvl", "coll_channels", "fallback_to_socket"):
            assert told[key] == said[key], (key, work.entry)
        assert set(said["networks_used"]) <= set(told["networks_used"])


def test_a_rail_limits_the_devices() -> None:
    transport = measure.read(run(fabric(), workload(names([0, 1]), rail=3)).log).transport
    assert transport["devices"] == ["mlx5_3:1/IB"]


def test_a_fall_back_to_sockets_is_read_as_one() -> None:
    faults = [{"kind": "transport", "node": "node-005", "effect": "socket"}]
    transport = measure.read(run(fabric(faults=faults), workload(names(range(8)))).log).transport
    assert transport["fallback_to_socket"] is True
    assert transport["fallback_nodes"] == ["node-005"]
    assert transport["net_plugin"] == "IB"
    assert transport["differs"]["net_plugin"] == ["node-005"]


def test_a_crash_is_read_as_an_error_that_names_the_peer() -> None:
    faults = [{"kind": "node", "node": "node-001", "effect": "crash"}]
    read = measure.read(run(fabric(faults=faults), workload(names(range(4)))).log)
    assert not read.complete
    assert "node-001" in {error.peer for error in read.errors}


@pytest.mark.parametrize("effect", ["hang", "crash"])
def test_a_log_that_stops_is_read_as_incomplete(effect: str) -> None:
    faults = [{"kind": "node", "node": "node-001", "effect": effect}]
    read = measure.read(run(fabric(faults=faults), workload(names(range(4)), options={"maxBytes": "16G"})).log)
    assert not read.complete
    assert read.tables[0].rows


def test_thousands_of_ranks_leave_a_compact_log_with_means_a_node() -> None:
    done = run(fabric(512), workload(names(range(512)), options={"minBytes": 8, "stepFactor": 2, "maxBytes": "16G"}))
    content = result(done)
    assert (content["world_size"], content["per_rank"], len(content["per_node"])) == (4096, [], 512)
    assert content["per_node"][1].keys() == {"node", "ranks", "time_us", "wrong"}
    assert len(done.log) < 100_000
    read = measure.read(done.log)
    assert (read.complete, read.ranks, read.nodes) == (True, 4096, 512)


def test_a_binary_of_nccl_tests_prints_its_table_and_no_line_of_ours() -> None:
    done = run(fabric(), workload(names([0, 1]), framework="mpi"))
    assert b"CLUSTERPROOF" not in done.log
    assert measure.read(done.log).complete
