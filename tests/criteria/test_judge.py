"""The judge fails closed, lists every violation and names value, floor, tolerance and source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog import Threshold, healthy_busbw, load
from catalog.words import COLLECTIVES
from criteria import CriteriaError, Event, Judge, Reason
from measure import Cell, LogError, LogEvent, Measurement, Result, Step, Table
from tests.criteria.runs import CATALOG, SIZES, G, conditions, ended, judge, measured


def test_a_healthy_run_passes_and_says_by_what() -> None:
    verdict = judge(measured(370.0))
    assert verdict.outcome == "passed"
    assert verdict.reason is None
    assert verdict.value == 370.0
    assert verdict.unit == "GB/s"
    check = next(check for check in verdict.checks if check.metric == "busBandwidthGBps")
    assert check.floor == pytest.approx(0.8 * (check.expected or 0))  # type: ignore[operator]
    assert f"{check.floor:.4g} GB/s at 16G (floor = 0.8 x {check.expected:.4g}; profile h100-8x-ndr8" in check.text
    assert "Together AI" in check.text
    assert check.tolerance == 0.8


def test_a_slow_run_violates_the_floor_and_says_by_how_much() -> None:
    verdict = judge(measured(200.0))
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.THRESHOLD_VIOLATION)
    assert verdict.message.startswith("busBandwidthGBps 200 < 298.3 GB/s at 16G")
    assert verdict.violations[0].margin == pytest.approx(200 / 298.3 - 1, abs=1e-3)


def test_the_worst_repeat_decides_not_the_mean() -> None:
    healthy = judge(measured(370.0, cycles=(370.0, 369.0, 371.0, 370.0)))
    shaky = judge(measured(299.149, cycles=(370.0, 190.0, 370.0, 370.0)))
    assert healthy.passed
    assert shaky.reason is Reason.THRESHOLD_VIOLATION
    assert shaky.value == 190.0


def test_a_value_close_to_its_floor_is_grey() -> None:
    floor = judge(measured(370.0)).checks[-1].floor or 0.0
    assert judge(measured(floor * 1.01)).grey
    assert judge(measured(floor * 0.99)).grey
    assert not judge(measured(floor * 1.05)).grey


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (None, "left nothing to read"),
        (measured(complete=False), "the log stops before its end"),
        (measured(sizes=SIZES[:3]), "1 of 4 sizes are missing: 16G"),
        (measured(sizes=SIZES[1:]), "1 of 4 sizes are missing: 8"),
        (measured(None), "is not a number"),
        (measured(370.0, cycles=(370.0, None)), "is not a number"),
        (measured(tables=()), "no row of a all_reduce table"),
        (measured(tables=(Table(),)), "no row of a all_reduce table"),
        (measured(ranks=31), "31 of 32 ranks"),
        (measured(per_rank=tuple({"rank": rank} for rank in range(30))), "missing 30, 31"),
        (measured(collective="alltoall"), "the log is of alltoall"),
        (measured(wrong={G: None}), "the results at 1G were not checked"),
    ],
)
def test_what_is_missing_cut_or_no_number_is_never_a_pass(run: Measurement | None, words: str) -> None:
    verdict = judge(run)
    assert (verdict.outcome, verdict.reason) == ("failed", Reason.NO_MEASUREMENT)
    assert words in verdict.message


def test_sizes_that_nccl_tests_rounds_down_are_not_missing() -> None:
    asked = (8, 2**20 + 100, 16 * G)
    shown = (0, 2**20, 16 * G)
    run = replace(measured(sizes=shown), details={}, result_line=False)
    assert judge(run, conditions(sizes=asked, program="all_reduce_perf")).passed


def test_the_programs_own_list_of_asked_sizes_is_believed() -> None:
    run = measured(sizes=(128, 16 * G), details={"result": {"requested_sizes": [8, 16 * G], "sizes": [128, 16 * G]}})
    assert judge(run, conditions(sizes=(8, 16 * G))).passed
    assert judge(run, conditions(sizes=(8, 16, 16 * G))).reason is Reason.NO_MEASUREMENT


def test_wrong_results_are_data_corruption_whatever_the_bandwidth() -> None:
    verdict = judge(measured(370.0, wrong={2**20: 3}))
    assert verdict.reason is Reason.DATA_CORRUPTION
    assert "3 at 1M" in verdict.message


def of_ranks(bad: set[int]) -> tuple[dict[str, object], ...]:
    return tuple({"rank": rank, "node": f"node-{rank // 8}", "wrong": int(rank in bad)} for rank in range(32))


@pytest.mark.parametrize(
    "run",
    [
        measured(per_rank=of_ranks({9})),
        measured(tables=(replace(measured().tables[0], out_of_bounds=2),)),
        replace(measured(), cycles=({"cycle": 0, "rows": [{"size": 8, "busbw": 1.0, "wrong": 1}]},)),
    ],
    ids=["one rank", "out of bounds", "one cycle"],
)
def test_every_place_where_wrong_results_show_is_looked_at(run: Measurement) -> None:
    assert judge(run).reason is Reason.DATA_CORRUPTION


def test_wrong_results_of_some_nodes_point_at_them_those_of_all_at_nobody() -> None:
    some = measured(per_rank=of_ranks(set(range(16, 24))))
    everyone = measured(per_rank=of_ranks(set(range(32))))
    assert [hint.node for hint in judge(some).hints] == ["node-2"]
    assert judge(everyone).hints == ()


def test_a_rank_that_exits_names_the_first_one_and_its_node() -> None:
    exits = ended("failed", {9: -9, 17: 1, 25: 1})
    verdict = judge(measured(complete=False), conditions(ended=exits))
    assert verdict.reason is Reason.WORKLOAD_FAILED
    assert "rank 9 on node-1 was killed by signal 9; 2 more ranks failed after it" in verdict.message
    assert [hint.node for hint in verdict.hints] == ["node-1"]


def test_a_rank_that_exited_non_zero_fails_even_where_the_run_says_success() -> None:
    assert judge(measured(), conditions(ended=ended("succeeded", {3: 1}))).reason is Reason.WORKLOAD_FAILED


def test_a_program_that_exits_over_wrong_results_is_data_corruption() -> None:
    verdict = judge(measured(wrong={8: 1}), conditions(ended=ended("failed", {0: 1})))
    assert verdict.reason is Reason.DATA_CORRUPTION
    assert "exited with code 1" in verdict.message


@pytest.mark.parametrize(
    ("state", "outcome", "reason"),
    [
        ("stalled", "failed", Reason.STALLED),
        ("timed_out", "failed", Reason.TIMED_OUT),
        ("lost", "failed", Reason.LOST),
        ("unhealthy", "failed", Reason.HARDWARE_FAILURE_DETECTED),
        ("unschedulable", "error", Reason.UNSCHEDULABLE),
        ("launch_failed", "error", Reason.LAUNCH_FAILED),
        ("cancelled", "error", Reason.CANCELLED),
    ],
)
def test_each_end_of_a_run_has_its_own_outcome_and_reason(state: str, outcome: str, reason: Reason) -> None:
    verdict = judge(None, conditions(ended=ended(state, message="what the cluster said")))
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert "what the cluster said" in verdict.message


def test_a_hardware_event_names_exactly_its_node_in_the_conditions_words() -> None:
    events = (Event("node-2", "health", "GpuXidCritical: Xid 79"), Event("node-1", "lost", "NotReady"))
    verdict = judge(None, conditions(ended=ended("unhealthy", events=events)))
    assert verdict.reason is Reason.HARDWARE_FAILURE_DETECTED
    assert verdict.message == "node-2: GpuXidCritical: Xid 79"
    assert [hint.node for hint in verdict.hints] == ["node-2"]


def test_a_lost_node_accuses_nobody() -> None:
    verdict = judge(None, conditions(ended=ended("lost", events=(Event("node-1", "lost", "NotReady"),))))
    assert "nobody is accused" in verdict.message
    assert verdict.hints == ()


def test_errors_and_events_in_the_log_are_hints_with_the_peer_they_name() -> None:
    run = measured(
        errors=(LogError(rank=9, what="connection closed by peer", peer="node-3"),),
        events=(LogEvent("xid", "GPU has fallen off the bus", code=79, host="node-0"),),
    )
    hints = judge(run).hints
    assert [(hint.node, hint.peer) for hint in hints] == [("node-0", ""), ("node-1", "node-3")]
    assert "79" in hints[0].why


def test_a_fall_back_to_sockets_fails_with_those_words_and_names_the_node() -> None:
    run = measured(370.0, transport={"net_plugin": "IB", "fallback_to_socket": True, "fallback_nodes": ["node-2"]})
    verdict = judge(run)
    assert verdict.reason is Reason.THRESHOLD_VIOLATION
    assert "silent fall-back to TCP sockets on node-2" in verdict.message
    assert [hint.node for hint in verdict.hints] == ["node-2"]


@pytest.mark.parametrize(
    ("platform", "product", "network", "right"),
    [
        ("aws", "h100", "AWS Libfabric", True),
        ("aws", "h100", "IB", False),
        ("azure", "h100", "IB", True),
        ("gcp", "h100", "FasTrak", True),
        ("onprem", "h100", "IB", True),
        ("onprem", "h100", "something of a vendor", True),
        ("gcp", "rtxpro6000", "Socket", True),
    ],
)
def test_the_network_must_be_the_platforms(platform: str, product: str, network: str, right: bool) -> None:
    transport = {"net_plugin": network, "fallback_to_socket": network == "Socket"}
    given = conditions(product, platform=platform, rails=8, gbps=400)
    checks = judge(measured(370.0, transport=transport), given).checks
    assert [check.ok for check in checks if check.metric == "transport"] == [right]


@pytest.mark.parametrize(
    ("devices", "right"),
    [
        ([f"mlx5_{number}:1/IB" for number in range(8)], True),
        ([f"mlx5_{number}:1/IB" for number in range(7)], False),
        (["mlx5_0:1+mlx5_1:1/IB", "mlx5_2:1+mlx5_3:1/IB", "mlx5_4:1+mlx5_5:1/IB", "mlx5_6:1+mlx5_7:1/IB"], True),
        ([], True),
        (None, True),
    ],
)
def test_nccl_must_use_every_nic_of_the_node(devices: list[str] | None, right: bool) -> None:
    verdict = judge(measured(370.0, transport={"net_plugin": "IB", "devices": devices}))
    assert verdict.passed is right
    assert ("NCCL uses 7 of the node's 8 NICs" in verdict.message) is not right


def test_inside_an_nvlink_domain_the_network_does_not_matter() -> None:
    given = conditions(layer="scale-up", nodes=1, ranks=8)
    run = measured(470.0, ranks=8, nodes=1, transport={"fallback_to_socket": True})
    assert judge(run, given).passed


@pytest.mark.parametrize(
    "given",
    [
        conditions("l40s"),
        conditions("no such product"),
        conditions("h100", rails=0, gbps=0.0),
        conditions("h100", layer="scale-up", nodes=1, gpus_per_node=1, ranks=1),
    ],
    ids=["no usual NICs", "unknown product", "unknown NICs", "one rank"],
)
def test_a_case_on_gpus_that_nothing_judged_is_inconclusive(given: Any) -> None:
    verdict = judge(measured(370.0, ranks=given.ranks), given)
    assert verdict.outcome == "inconclusive"
    assert "judged by nothing" in verdict.message
    assert "set a threshold on busBandwidthGBps" in verdict.message


def test_an_explicit_threshold_decides_where_nothing_else_could() -> None:
    bound = Threshold(metric="busBandwidthGBps", min=300)
    assert judge(measured(370.0), conditions("l40s"), bound).passed
    assert judge(measured(290.0), conditions("l40s"), bound).reason is Reason.THRESHOLD_VIOLATION


def test_the_nics_alone_judge_an_unknown_product() -> None:
    given = conditions("no such product", rails=8, gbps=400)
    assert judge(measured(370.0), given).passed
    verdict = judge(measured(200.0), given)
    assert verdict.reason is Reason.THRESHOLD_VIOLATION
    assert "provisional" in verdict.message


def test_an_explicit_threshold_replaces_the_profile_for_its_metric() -> None:
    lower = Threshold(metric="busBandwidthGBps", min=100)
    verdict = judge(measured(200.0), conditions(), lower)
    assert verdict.passed
    assert [check.source for check in verdict.checks if check.metric == "busBandwidthGBps"] == ["threshold given"]


def test_a_users_threshold_takes_the_place_of_the_entrys_own(tmp_path: Path) -> None:
    entry = CATALOG.entry("nccl-all-reduce").model_dump(mode="json", by_alias=True)
    entry["criteria"] = [{"metric": "latencyUs", "max": 5}, {"metric": "algBandwidthGBps", "min": 100}]
    (tmp_path / "entry.yaml").write_text(json.dumps({"entries": [entry]}))
    catalog = load([tmp_path])
    assert "latencyUs 5.491 us violates" in Judge(catalog).judge(measured(), conditions()).message
    lenient = Judge(catalog, [Threshold(metric="latencyUs", max=50)]).judge(measured(), conditions())
    assert lenient.passed
    assert "algBandwidthGBps" in {check.metric for check in lenient.checks}


@pytest.mark.parametrize(("expr", "holds"), [("value >= 300", True), ("value >= 900", False), ("value < 100", False)])
def test_an_expression_decides_alone(expr: str, holds: bool) -> None:
    verdict = judge(measured(370.0), conditions(), Threshold(metric="busBandwidthGBps", expr=expr))
    assert verdict.passed is holds
    assert f"{'holds' if holds else 'violates'} the threshold {expr}" in next(
        check.text for check in verdict.checks if check.metric == "busBandwidthGBps"
    )


def test_a_threshold_on_another_metric_or_size_leaves_the_profile_on() -> None:
    others = (Threshold(metric="latencyUs", max=50), Threshold(metric="busBandwidthGBps", min=1, size="1M"))
    assert judge(measured(200.0), conditions(), *others).reason is Reason.THRESHOLD_VIOLATION
    same = Threshold(metric="busBandwidthGBps", min=100, size="16G")
    assert judge(measured(200.0), conditions(), same).passed


def test_gloo_certifies_no_gpu_and_is_judged_by_explicit_thresholds_only() -> None:
    given = conditions(backend="gloo")
    run = measured(0.5, backend="gloo")
    verdict = judge(run, given)
    assert verdict.passed
    assert "certifies no GPU" in verdict.message
    assert verdict.value == 0.5
    assert judge(run, given, Threshold(metric="busBandwidthGBps", min=1)).reason is Reason.THRESHOLD_VIOLATION


def test_all_violations_are_listed_the_gravest_first() -> None:
    bounds = (Threshold(metric="latencyUs", max=5), Threshold(metric="algBandwidthGBps", min=1000))
    verdict = judge(measured(200.0, wrong={8: 2}), conditions(), *bounds)
    assert verdict.reason is Reason.DATA_CORRUPTION
    assert {check.metric for check in verdict.violations} == {
        "wrong", "latencyUs", "algBandwidthGBps", "busBandwidthGBps",
    }  # fmt: skip
    for part in ("wrong result elements", "latencyUs", "algBandwidthGBps", "busBandwidthGBps 200"):
        assert part in verdict.message


def test_a_metric_that_was_not_measured_is_no_measurement_and_says_what_was() -> None:
    verdict = judge(measured(), conditions(), Threshold(metric="goodputRatio", min=0.9))
    assert verdict.reason is Reason.NO_MEASUREMENT
    assert "goodputRatio was not measured" in verdict.message
    assert "nccl-all-reduce measured busBandwidthGBps" in verdict.message


@pytest.mark.parametrize(("value", "size"), [(1.0, "1M"), (1e6, None)])
def test_a_bound_may_be_on_one_message_size(value: float, size: str | None) -> None:
    bound = Threshold(metric="busBandwidthGBps", min=value, size=size)
    verdict = judge(measured(370.0), conditions(), bound)
    assert verdict.passed == (size is not None)


def test_two_nodes_above_the_line_rate_are_another_algorithm_not_a_good_fabric() -> None:
    verdict = judge(measured(487.0, ranks=16, nodes=2), conditions(nodes=2, ranks=16))
    assert "above the line rate of 8x400 Gb/s = 400 GB/s: another algorithm than a ring" in verdict.message
    assert "not proof of a good fabric" in verdict.message
    assert "at least 259.7 GB/s crossed the NICs" in verdict.message
    assert "line rate" not in judge(measured(370.0, ranks=16, nodes=2), conditions(nodes=2, ranks=16)).message


def test_with_sharp_the_bar_is_higher() -> None:
    given = conditions(nodes=8, ranks=64)
    plain = judge(measured(370.0, ranks=64, nodes=8), given)
    sharp = judge(measured(370.0, ranks=64, nodes=8, transport={"collnet_sharp": True}), given)
    assert (sharp.expected or 0) > (plain.expected or 0)
    assert "Together" in next(check.source for check in plain.checks if check.metric == "busBandwidthGBps")
    assert "CoreWeave" in next(check.source for check in sharp.checks if check.metric == "busBandwidthGBps")


@pytest.mark.parametrize("product", [name for name, acc in CATALOG.accelerators.items() if acc.rails])
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("platform", ["onprem", "aws", "gcp", "azure", "oci"])
def test_a_machine_at_its_healthy_figure_passes_on_every_product_and_platform(
    product: str, collective: str, platform: str
) -> None:
    acc = CATALOG.accelerators[product]
    for layer, nodes, size in (("scale-up", 1, 16 * G), ("fabric", 1, G), ("fabric", 2, G), ("fabric", 64, 16 * G)):
        figure = healthy_busbw(
            acc, collective=collective, layer=layer, nodes=nodes, gpus_per_node=acc.gpus_per_node, size=size,
            rails=acc.rails, gbps=acc.gbps,
        )  # fmt: skip
        assert figure is not None
        ranks = nodes * acc.gpus_per_node
        given = conditions(
            product, collective=collective, layer=layer, nodes=nodes, gpus_per_node=acc.gpus_per_node, ranks=ranks,
            sizes=(size,), platform=platform,
        )  # fmt: skip
        run = measured(figure.value * 0.97, sizes=(size,), collective=collective, ranks=ranks, nodes=nodes)
        verdict = judge(run, given)
        assert verdict.passed, verdict.message
        assert not verdict.grey


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ([Threshold(metric="busBandwith", min=1)], "did you mean 'busBandwidthGBps'"),
        ([Threshold(metric="avgTFLOPSPerGPU", min=1)], "did you mean 'avgTFLOPsPerGPU'"),
        ([Threshold(metric="busBandwidthGBps", min=1, unit="Gb/s")], "expected unit GB/s"),
        ([Threshold(metric="goodputRatio", min=1, size=8)], "expected no size"),
    ],
)
def test_a_threshold_that_cannot_be_used_is_refused_before_anything_is_launched(
    thresholds: list[Threshold], words: str
) -> None:
    with pytest.raises(CriteriaError, match=words):
        Judge(CATALOG, thresholds)


def test_every_bad_threshold_is_named_at_once() -> None:
    with pytest.raises(CriteriaError) as caught:
        Judge(CATALOG, [Threshold(metric="x", min=1), Threshold(metric="latencyUs", expr="value >")])
    assert len(str(caught.value).splitlines()) >= 2


@pytest.mark.parametrize("tolerance", [0, -1, 1.1, float("nan")])
def test_a_tolerance_that_would_let_everything_pass_is_refused(tolerance: float) -> None:
    with pytest.raises(CriteriaError, match="tolerance"):
        Judge(CATALOG, tolerance=tolerance)


def training(losses: list[float | None], first: int = 1, **extra: Any) -> Measurement:
    steps = tuple(
        Step(step=number, time_s=1.0, loss=loss, extra={"nan": ["loss"]} if loss is None else extra)
        for number, loss in enumerate(losses, first)
    )
    return Measurement(complete=True, format="torchtitan", steps=steps)


FALLING: list[float | None] = [9.0 - 0.1 * number for number in range(30)]
RISING: list[float | None] = [9.0 + 0.1 * number for number in range(30)]
TRAINING = conditions(entry="gpt-small", collective=None)


def test_a_loss_that_is_no_number_names_its_step() -> None:
    losses = [*FALLING[:6], None, *FALLING[7:]]
    verdict = judge(training(losses), TRAINING)
    assert verdict.reason is Reason.DATA_CORRUPTION
    assert "the loss at step 7 is not a number" in verdict.message


@pytest.mark.parametrize("extra", [{"nan": ["grad_norm"]}, {"nan_iterations": 1}])
def test_a_perfect_loss_with_gradients_that_are_no_numbers_is_a_failure(extra: dict[str, Any]) -> None:
    assert judge(training([0.0, 0.0], **extra), TRAINING).reason is Reason.DATA_CORRUPTION


def test_a_loss_must_fall_where_the_training_begins() -> None:
    assert judge(training(FALLING), TRAINING).passed
    verdict = judge(training(RISING), TRAINING)
    assert verdict.reason is Reason.THRESHOLD_VIOLATION
    assert "loss did not fall over 30 steps" in verdict.message
    assert judge(training(RISING, first=31214), TRAINING).passed
    assert judge(training(RISING[:5]), TRAINING).passed


def test_a_loss_that_skipped_steps_leave_out_is_not_said() -> None:
    skipped = tuple(Step(step=number, time_s=5.0, extra={"skipped": 1}) for number in range(3))
    run = Measurement(complete=True, format="megatron-lm", steps=(*skipped, *training(FALLING).steps))
    assert judge(run, TRAINING).passed


@pytest.mark.parametrize("status", ["fail", "error"])
def test_a_failed_diagnostic_fails_and_names_test_and_gpu(status: str) -> None:
    results = (Result("pcie", "pass", gpu=0), Result("memory", status, gpu=3, error="row remap pending"))
    verdict = judge(Measurement(complete=True, format="dcgm-json", results=results), TRAINING)
    assert verdict.reason is Reason.HARDWARE_FAILURE_DETECTED
    assert "memory on GPU 3" in verdict.message
    assert "row remap pending" in verdict.message


@pytest.mark.parametrize("statuses", [["skip"], ["skip", "not_run"]])
def test_skipped_is_not_passed(statuses: list[str]) -> None:
    results = tuple(Result("memory", status) for status in statuses)
    verdict = judge(Measurement(complete=True, format="dcgm-json", results=results), TRAINING)
    assert verdict.outcome == "inconclusive"
    assert "nothing ran" in verdict.message


def test_some_skipped_tests_beside_passed_ones_are_shown() -> None:
    results = (Result("pcie", "pass", gpu=0), Result("nvbandwidth", "skip"))
    verdict = judge(Measurement(complete=True, format="dcgm-json", results=results), TRAINING)
    assert verdict.passed
    assert "1 passed, 1 skip" in verdict.message


def test_a_users_own_program_is_judged_by_its_exit_and_thresholds_alone() -> None:
    own = conditions(entry="my-workload", collective=None)
    silent = Measurement(format="unknown", complete=False)
    assert judge(silent, own).passed
    assert judge(silent, own, Threshold(metric="goodputRatio", min=0.5)).reason is Reason.NO_MEASUREMENT


@pytest.mark.parametrize(
    ("code", "accused"), [(79, True), (94, True), (13, False), (31, False), (43, False), (45, False)]
)
def test_an_xid_of_an_application_accuses_nobody(code: int, accused: bool) -> None:
    run = measured(events=(LogEvent("xid", "Xid", code=code, host="node-0"),))
    assert bool(judge(run).hints) is accused


@pytest.mark.parametrize(("raw", "checked"), [("0e+00", True), ("1e-06", True), ("N/A", False), (None, False)])
def test_the_old_error_column_counts_as_a_check_where_it_has_a_number(raw: str | None, checked: bool) -> None:
    table = measured().tables[0]
    rows = tuple(
        replace(row, out_of_place=replace(row.out_of_place or Cell(), wrong=None, error_raw=raw)) for row in table.rows
    )
    run = measured(tables=(replace(table, rows=rows),), result_line=False)
    assert judge(replace(run, cycles=()), conditions(program="all_reduce_perf")).passed is checked


@pytest.mark.parametrize(
    ("value", "bound", "words"),
    [
        (370.0, {"min": 900.0}, "is about 373 GB/s: the threshold lies above it"),
        (310.0, {"min": 360.0}, "is about 373 GB/s: the threshold asks for more than 80% of it"),
        (370.0, {"expr": "value > 900"}, "is about 373 GB/s: the value reaches 99% of it"),
        (200.0, {"min": 900.0}, ""),
        (370.0, {"max": 100.0}, ""),
        (370.0, {"min": 100.0}, ""),
    ],
)
def test_a_missed_threshold_says_where_the_value_is_healthy(value: float, bound: dict[str, Any], words: str) -> None:
    asked = Threshold(metric="busBandwidthGBps", **bound)
    check = judge(measured(value), conditions(), asked).checks[-1]
    assert (words in check.text) if words else ("healthy" not in check.text)


def test_over_gloo_no_figure_is_healthy() -> None:
    asked = Threshold(metric="busBandwidthGBps", min=900)
    found = judge(measured(370.0, backend="gloo"), conditions(backend="gloo"), asked)
    assert "healthy figure" not in found.message
