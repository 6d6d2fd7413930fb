"""Expressions, metrics, peers and goodput, each by itself."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from criteria import METRICS, Conditions, CriteriaError, Ended, Exit, Peers, metrics
from criteria.ended import exits, hints
from criteria.expressions import Expression
from criteria.metrics import metric
from criteria.peers import among_ranks
from criteria.training import Lifecycle, goodput, stalled_after
from measure import Measurement, Step, ToolTable
from tests.criteria.runs import conditions, judge, measured


@pytest.mark.parametrize(
    ("source", "value", "holds"),
    [
        ("value >= 900", 900.0, True),
        ("value >= 900", 899.9, False),
        ("value >= 0.8 && value <= 1.2", 1.0, True),
        ("value * 2.0 > 3", 1.0, False),
        ("value > 1000 || value == 5.0", 5.0, True),
    ],
)
def test_an_expression_is_true_or_false_of_a_value(source: str, value: float, holds: bool) -> None:
    assert Expression(source, "here").holds(value) is holds


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("value >", "expected a CEL expression"),
        ("", "expected a CEL expression"),
        ("valeu > 1", "does not look at value but at valeu"),
        ("true", "does not look at value"),
        ("value", "true or false"),
        ("value == 1.0 ? true : 3", "true or false"),
        ("value > 'a'", "cannot be evaluated"),
        ("value * 2 > 3", "2.0 rather than 2"),
        ("value > 10 || foo", "cannot be evaluated"),
        ("value.foo > 1", "cannot be evaluated"),
    ],
)
def test_an_expression_that_cannot_judge_is_refused_at_once(source: str, words: str) -> None:
    with pytest.raises(CriteriaError, match=words) as caught:
        Expression(source, "cert.yaml: thresholds.x")
    assert str(caught.value).startswith("cert.yaml: thresholds.x")


@given(st.text(max_size=30))
def test_no_text_makes_an_expression_raise_anything_else(source: str) -> None:
    with contextlib.suppress(CriteriaError):
        Expression(source, "here")


def test_the_metric_names_of_nvcre_are_known() -> None:
    for name in ("busBandwidthGBps", "algBandwidthGBps", "goodputRatio", "avgTFLOPsPerGPU", "avgStepTimeSec"):
        assert metric(name).name == name
    assert all(each.meaning for each in METRICS.values())


def test_bus_bandwidth_is_at_the_largest_size_and_the_peak_over_all() -> None:
    run = measured(300.0, sizes=(8, 2**30, 2**34))
    values = metrics(run)
    assert values["busBandwidthGBps"] == 300.0
    assert values["peakBusBandwidthGBps"] >= 300.0 * 0.99
    assert values["wrong"] == 0
    assert values["latencyUs"] == pytest.approx(6.7721, abs=1e-4)
    assert "goodputRatio" not in values


def test_training_metrics_leave_the_warm_up_out() -> None:
    steps = tuple(
        Step(step=n, time_s=10.0 if n < 10 else 1.0, tflops_per_gpu=50.0 if n < 10 else 500.0, loss=9.0 - n / 10)
        for n in range(40)
    )
    values = metrics(Measurement(steps=steps))
    assert values["avgStepTimeSec"] == pytest.approx(1.0)
    assert values["avgTFLOPsPerGPU"] == pytest.approx(500.0)
    assert values["finalLoss"] == pytest.approx(5.1)


def test_a_metric_of_every_rank_is_that_of_the_worst() -> None:
    ranks = ({"rank": 0, "gemmTFLOPs": 700.0}, {"rank": 1, "gemmTFLOPs": 650.0})
    assert metrics(Measurement(per_rank=ranks))["gemmTFLOPs"] == 650.0
    spoilt = (*ranks, {"rank": 2, "gemmTFLOPs": None})
    assert "gemmTFLOPs" not in metrics(Measurement(per_rank=spoilt))


@pytest.mark.parametrize(
    ("life", "ratio"),
    [
        (Lifecycle(1000.0), 1.0),
        (Lifecycle(1000.0, lost_s=50, resume_s=30, save_s=20), 0.9),
        (Lifecycle(1000.0, lost_s=50, resume_s=30, reschedule_s=100, save_s=20), 800 / 900),
        (Lifecycle(100.0, resume_s=300), 0.0),
        (Lifecycle(100.0, reschedule_s=100), 0.0),
    ],
)
def test_goodput_follows_the_formula(life: Lifecycle, ratio: float) -> None:
    assert goodput(life) == pytest.approx(ratio)


def test_goodput_comes_from_what_the_program_says_of_its_life() -> None:
    run = Measurement(details={"result": {"wall_s": 100.0, "resume_s": 10.0, "save_s": 5.0, "startup_s": 10.0}})
    assert metrics(run) == {"goodputRatio": pytest.approx(0.85), "startupSec": 10.0}


def test_a_stall_is_a_multiple_of_the_usual_interval() -> None:
    assert stalled_after([60, 60, 280, 60]) == pytest.approx(180.0)
    assert stalled_after([1, 1, 1]) == 30.0
    assert stalled_after([60, 60]) is None


@pytest.mark.parametrize(("slow", "outcome"), [(20.0, "passed"), (200.0, "failed")])
def test_a_step_as_long_as_a_stall_fails_and_is_named(slow: float, outcome: str) -> None:
    steps = tuple(Step(step=n, time_s=slow if n == 23 else 20.0, loss=9.0 - n / 10) for n in range(40))
    verdict = judge(Measurement(complete=True, steps=steps), conditions(entry="gpt-small", collective=None))
    assert verdict.outcome == outcome
    assert ("step 23 took 200 s, usual 20 s, limit 60 s" in verdict.message) is (outcome == "failed")


@pytest.mark.parametrize(
    ("values", "outcome", "words"),
    [
        ({"gemmTFLOPs": 780.0, "precision": "bf16"}, "passed", "profile h100-8x-ndr8, measured"),
        ({"gemmTFLOPs": 500.0, "precision": "bf16"}, "failed", "gemmTFLOPs 500 < 635.6 TFLOP/s (floor = 0.8 x 794.5"),
        ({"gemmTFLOPs": 500.0}, "passed", "exited 0"),
        ({"hbmBandwidthGBps": 1000.0}, "failed", "2903"),
        ({"pcieBandwidthGBps": 20.0}, "failed", "46.8"),
    ],
)
def test_a_single_gpu_is_held_against_its_products_profile(values: dict[str, object], outcome: str, words: str) -> None:
    given = conditions(entry="gemm", collective=None, layer="node", nodes=1, ranks=8)
    run = Measurement(complete=True, details={"result": values})
    verdict = judge(run, given)
    assert verdict.outcome == outcome
    assert words in verdict.message


def test_a_single_nic_is_held_against_its_class() -> None:
    given = conditions(entry="ib-write", collective=None, nodes=2, ranks=2)
    for gbps, outcome in ((392.0, "passed"), (190.0, "failed")):
        table = ToolTable("ib_write_bw", rows=({"size": 65536, "bw_avg_Gbps": gbps},), complete=True)
        assert judge(Measurement(complete=True, tool_tables=(table,)), given).outcome == outcome


def fleet(count: int, spread: float, seed: int = 1, mean: float = 100.0) -> dict[str, float]:
    draw = random.Random(seed)
    return {f"node-{number:04d}": draw.gauss(mean, spread * mean) for number in range(count)}


def peers(values: dict[str, float], name: str = "busBandwidthGBps") -> Peers:
    found = Peers()
    for node, value in values.items():
        found.add("case", node, name, value)
    return found


def test_a_healthy_fleet_of_thousands_has_no_outlier() -> None:
    for seed in range(5):
        assert peers(fleet(4096, 0.01, seed)).outliers("case") == ()


def test_one_slow_node_stands_out_and_is_confirmed_by_a_rerun() -> None:
    found = peers({**fleet(64, 0.01), "node-0007": 80.0})
    (outlier,) = found.outliers("case")
    assert outlier.name == "node-0007"
    assert not outlier.confirmed
    assert "20" in outlier.text
    assert "not rerun yet" in outlier.text
    found.add("case", "node-0007", "busBandwidthGBps", 79.0)
    (outlier,) = found.outliers("case")
    assert outlier.confirmed


def test_a_node_that_is_well_when_rerun_is_not_confirmed() -> None:
    found = peers({**fleet(64, 0.01), "node-0007": 80.0})
    found.add("case", "node-0007", "busBandwidthGBps", 100.0)
    assert not any(outlier.confirmed for outlier in found.outliers("case"))


def test_a_better_node_is_no_outlier_and_lower_is_better_where_it_is() -> None:
    assert peers({**fleet(64, 0.01), "node-0007": 150.0}).outliers("case") == ()
    (slow,) = peers({**fleet(64, 0.01), "node-0007": 150.0}, "latencyUs").outliers("case")
    assert slow.name == "node-0007"


def test_a_difference_must_matter_for_its_metric() -> None:
    close = {**{f"n{number}": 100.0 + 0.01 * (number % 3) for number in range(32)}, "n7": 97.0}
    assert peers(close).outliers("case") == ()
    (outlier,) = peers(close, "gemmTFLOPs").outliers("case")
    assert outlier.name == "n7"


def test_a_wide_fleet_has_no_outlier_at_four_sigma() -> None:
    wide = {f"n{number}": 100.0 + 2.0 * (number % 5 - 2) for number in range(30)}
    assert peers({**wide, "n7": 88.0}).outliers("case") == ()
    assert peers({**wide, "n7": 80.0}).outliers("case") != ()


def test_five_peers_are_too_few_and_six_are_enough() -> None:
    few = {f"n{number}": 100.0 for number in range(4)}
    assert peers({**few, "slow": 50.0}).outliers("case") == ()
    assert peers({**few, "n4": 100.0, "slow": 50.0}).outliers("case") != ()


def test_few_peers_and_two_populations_name_nobody() -> None:
    assert peers({"a": 100.0, "b": 100.0, "c": 50.0}).outliers("case") == ()
    halves = {f"n{number}": 100.0 if number % 3 else 60.0 for number in range(30)}
    found = peers(halves)
    assert found.outliers("case") == ()
    assert found.systemic("case") == ("busBandwidthGBps",)


def test_other_groups_are_not_peers() -> None:
    found = peers(fleet(32, 0.01))
    found.add("another case", "node-x", "busBandwidthGBps", 10.0)
    assert found.outliers("another case") == ()
    assert found.outliers("case") == ()
    with pytest.raises(CriteriaError, match="unknown metric"):
        found.add("case", "n", "bandwidth", 1.0)


def test_a_slow_gpu_of_a_single_node_stage_is_named_by_its_node_and_number() -> None:
    ranks = tuple({"rank": n, "node": "node-4", "gemmTFLOPs": 700.0 + n - 60.0 * (n == 3)} for n in range(8))
    (outlier,) = among_ranks(Measurement(per_rank=ranks))
    assert outlier.name == "node-4 GPU 3"
    given = conditions(entry="gemm", collective=None, layer="node", nodes=1, ranks=8)
    hints = judge(Measurement(complete=True, per_rank=ranks), given).hints
    assert [hint.node for hint in hints] == ["node-4"]
    assert "GPU 3" in hints[0].why


def test_ranks_of_a_collective_name_nobody() -> None:
    ranks = tuple({"rank": n, "node": f"node-{n // 8}", "latencyUs": 10.0 + 90.0 * (n == 3)} for n in range(32))
    assert judge(measured(per_rank=ranks)).hints == ()


def test_the_rank_that_the_others_waited_for_is_a_hint_when_a_run_stalls() -> None:
    exits = (
        Exit(0, "n0", None, "ended by clusterproof"),
        Exit(1, "n1", None, "ended by clusterproof, behind the others"),
    )
    stalled = hints(None, Conditions("e", "all_reduce", "fabric", 2, 1, 2, "gloo", ended=Ended("stalled", exits=exits)))
    assert [hint.node for hint in stalled] == ["n1"]


def test_a_run_is_not_over_while_a_rank_has_not_ended() -> None:
    ended = Ended(exits=(Exit(0, "n0", 0), Exit(1, "n1", None)))
    check = exits(Conditions("e", "all_reduce", "fabric", 2, 1, 2, "gloo", ended=ended))
    assert check.ok is False
    assert "rank 1 on n1" in check.text


def with_counters(moved: object) -> Measurement:
    return Measurement(nodes=4, details={"result": {"proof": {"moved": moved}}})


def test_a_counter_of_damage_that_moved_points_at_its_node_and_retries_at_nobody() -> None:
    damage = {"device": "mlx5_3/1", "counter": "symbol_error", "kind": "error", "delta": 12}
    retry = {"device": "mlx5_0/1", "counter": "out_of_sequence", "kind": "retry", "delta": 3}
    where = Conditions("e", "all_reduce", "fabric", 4, 1, 4, "nccl")
    (hint,) = hints(with_counters({"n2": [retry, damage], "n3": [retry]}), where)
    assert (hint.node, hint.why) == ("n2", "mlx5_3/1 symbol_error grew by 12 during the run")
    assert hints(with_counters({node: [damage] for node in ("n0", "n1", "n2")}), where) == ()
    odds: tuple[object, ...] = (None, [], {"n1": 3}, {"n1": [None]})
    for odd in odds:
        assert hints(with_counters(odd), where) == ()
