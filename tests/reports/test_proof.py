"""What nodes say of themselves reaches the record: by case what changed, by node what a repair needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import measure
from cluster import Node
from reports import CaseRecord, Record, Session, Writer, proof, summary
from reports.failure import failure_text

MOVED = {"device": "mlx5_3/1", "counter": "symbol_error", "kind": "error", "delta": 12, "after": 12}
SAID: dict[str, Any] = {
    "shapes": [
        {"nodes": ["n1", "n2"], "shape": {"mlx5_3/1": {"rate": 400}, "mlx5_4/1": {"rate": 400}}},
        {"nodes": ["n3"], "shape": {"mlx5_3/1": {"rate": 200}}},
    ],
    "moved": {"n2": [MOVED]},
    "throttled": {"n1": {"gpu0": ["hw_thermal_slowdown"]}},
    "identity": {"n1": {"gpu0": {"uuid": "GPU-1", "pci": "0000:17:00.0"}}},
    "traffic": {"n1": {"mlx5_3/1": {"sent_bytes": 5}}},
}


def measurement(said: Any) -> measure.Measurement:
    result = {"schema": "clusterproof.result/v1", "collective": "all_reduce", "world_size": 3, "proof": said}
    return measure.read(f"CLUSTERPROOF-RESULT {json.dumps(result)}\n".encode())


def test_counters_throttling_and_odd_shapes_are_put_by_node() -> None:
    found = proof.counters(measurement(SAID))
    assert found["n2"] == {"moved": [MOVED]}
    assert found["n1"] == {"throttled": {"gpu0": ["hw_thermal_slowdown"]}}
    assert found["n3"]["differs"] == ["mlx5_3/1 rate: 200, most others 400", "mlx5_4/1 rate: absent, most others 400"]


def test_where_no_shape_is_the_most_common_nobody_is_odd() -> None:
    halves = [{"nodes": ["n1"], "shape": {"a": {"rate": 1}}}, {"nodes": ["n2"], "shape": {"a": {"rate": 2}}}]
    assert proof.counters(measurement({"shapes": halves})) == {}


def test_anything_else_in_the_place_of_a_proof_says_nothing() -> None:
    others: tuple[Any, ...] = (None, [], "x", {"shapes": "no", "moved": 3, "identity": {"n1": None}})
    for said in others:
        assert proof.counters(measurement(said)) == {}
        assert proof.identities(measurement(said)) == {}


def test_identities_go_to_the_node_and_counters_stay_with_the_case(tmp_path: Path) -> None:
    read = measurement(SAID)
    case = CaseRecord(
        id="a",
        nodes=["n1", "n2", "n3"],
        verdict="passed",
        counters=proof.counters(read),
        identities=proof.identities(read),
    )
    head = Record(session=Session(id="s", started="2026-01-01T00:00:00+00:00"))
    writer = Writer(tmp_path, head, [Node(name, identity={"systemUUID": "u"}) for name in ("n1", "n2", "n3")])
    writer.case(case)
    record = writer.close("finished")
    assert record.nodes[0].identity == {
        "systemUUID": "u",
        "devices": {"gpu0": {"uuid": "GPU-1", "pci": "0000:17:00.0"}},
    }
    assert record.cases[0].identities == {}
    assert record.cases[0].counters["n2"] == {"moved": [MOVED]}
    text = summary(record, width=140)
    assert "mlx5_3/1 symbol_error +12 (error)" in text
    assert "mlx5_3/1 rate: 200, most others 400" in text
    assert "gpu0 throttled: hw_thermal_slowdown" in failure_text(record.cases[0])
