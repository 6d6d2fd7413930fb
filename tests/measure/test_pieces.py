"""The small parts: JSON that was cut, names of columns, texts of NCCL's warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure import nccl_warn
from measure.columns import bracketed, name, split
from measure.lenient_json import parse

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_valid_json_is_read_as_json(document: Any) -> None:
    assert parse(json.dumps(document)) == (document, True)


@given(st.dictionaries(st.text(max_size=6), DOCUMENTS, min_size=1, max_size=4), st.data())
def test_cut_json_keeps_what_was_whole(document: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(document)
    found, whole = parse(text[: data.draw(st.integers(1, len(text) - 1))])
    assert not whole
    assert isinstance(found, dict)
    assert set(found) <= set(document)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, {"b": "c"', {"a": [1, {"b": "c"}]}),
        ('{"a": [1, {"b": "c', {"a": [1, {}]}),
        ('{"a": 12', {}),
        ('{"x": [{"..."}, {"y": 1}]}', {"x": [{}, {"y": 1}]}),
        ('{"a": 007}', {"a": 7}),
        ('{"a": tru', {}),
    ],
)
def test_what_is_not_json_is_salvaged(text: str, value: Any) -> None:
    assert parse(text) == (value, False)


@pytest.mark.parametrize(
    ("title", "key"),
    [
        ("Bandwidth (MB/s)", "bw_MBps"),
        ("MB/s", "bw_MBps"),
        ("BW peak[Gb/sec]", "bw_peak_Gbps"),
        ("BW average[MB/sec]", "bw_avg_MBps"),
        ("MsgRate[Mpps]", "mpps"),
        ("Avg Latency(us)", "avg_us"),
        ("Latency (us)", "latency_us"),
        ("P99 Tail Lat(us)", "p99_us"),
        ("99.9% percentile[usec]", "p99_9_us"),
        ("t_typical[usec]", "t_typical_us"),
        ("Overlap(%)", "overlap_percent"),
        ("Pure Comm.(us)", "pure_comm_us"),
        ("#bytes", "size"),
        ("Messages/s", "messages_per_s"),
    ],
)
def test_a_column_carries_its_unit(title: str, key: str) -> None:
    assert name(title) == key


def test_titles_are_told_apart_by_two_blanks_or_by_their_brackets() -> None:
    assert split("# Size      Bandwidth (MB/s)        Validation") == ["Size", "Bandwidth (MB/s)", "Validation"]
    assert bracketed(" #bytes #iterations t_min[usec] 99% percentile[usec]") == [
        "#bytes",
        "#iterations",
        "t_min[usec]",
        "99% percentile[usec]",
    ]


@pytest.mark.parametrize(
    ("where", "text", "peer", "what"),
    [
        ("misc/socket.cc:50", "socketProgress: Connection closed by remote peer n1.example<55>", "n1.example",
         "socketProgress: Connection closed by remote peer"),
        ("init.cc:9 (commReclaim)", "Cuda failure 'x'", None, "Cuda failure 'x' (commReclaim)"),
        ("init.cc:9 (commReclaim)", "commReclaim: failed", None, "commReclaim: failed"),
        ("net_ib.cc:1", "NET/IB: Got completion from peer 10.0.0.1<7> with status=12 opcode=1 vendor err 129 (Recv)",
         "10.0.0.1", "NET/IB: Got completion from peer with status=12 vendor err 129 (Recv)"),
        ("x.cc:1", "Call to connect to fe80::1%ib0<17943> failed", "fe80::1%ib0", "Call to connect to failed"),
        ("x.cc:1", "lost peer 10.0.0.9 for good", "10.0.0.9", "lost peer for good"),
    ],
)  # fmt: skip
def test_a_warning_names_its_peer_once(where: str, text: str, peer: str | None, what: str) -> None:
    assert (nccl_warn.peer_of(text), nccl_warn.text_of(where, text)) == (peer, what)


@pytest.mark.parametrize(
    ("where", "text", "advice"),
    [
        ("ras/client.cc:1", "Call to bind failed: Address already in use", True),
        ("sharp.c:1", "SHARP int8,uint8 Datatypes not supported", True),
        ("ibvwrap.cc:1", "Failed to open libibverbs.so[.1]", True),
        ("net_ib.cc:1", "NET/IB : Got completion from peer 10.0.0.1<1> with error 12", False),
        ("strongstream.cc:1", "Cuda failure 'unspecified launch failure'", False),
    ],
)
def test_advice_is_told_from_errors(where: str, text: str, advice: bool) -> None:
    assert nccl_warn.is_advice(where, text) is advice
