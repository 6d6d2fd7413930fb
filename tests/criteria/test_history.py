"""Earlier results of the same node set, profiles proposed from healthy ones, and what may be behind a miss."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from catalog import Profile, Threshold, check, load, parse_yaml
from criteria import (
    METRICS,
    Baseline,
    CriteriaError,
    Judge,
    Reason,
    Sample,
    explain,
    profile_yaml,
    propose_profile,
)
from criteria.proposal import two_populations
from tests.criteria.runs import CATALOG, G, conditions, ended, judge, measured

NODES = ("node-0", "node-1", "node-2", "node-3")


def report(tmp_path: Path, *values: float, verdict: str = "passed", name: str = "report.json") -> Path:
    path = tmp_path / name
    wrong = {"metric": "wrong", "value": 0}
    cases = [
        {
            "id": "nccl-all-reduce-full-scale", "entry": "nccl-all-reduce", "nodes": list(NODES), "verdict": verdict,
            "criteria": [{"metric": "busBandwidthGBps", "value": value, "size": 16 * G}, wrong],
        }
        for value in values
    ]  # fmt: skip
    path.write_text(json.dumps({"cases": cases}))
    return path


def against(path: Path, value: float) -> bool | None:
    baseline = Baseline.read([path])
    found = baseline.compare("nccl-all-reduce", reversed(NODES), "busBandwidthGBps", value, 16 * G)
    return found.ok if found else None


def test_worse_than_the_node_set_was_is_a_regression(tmp_path: Path) -> None:
    path = report(tmp_path, 370.0)
    assert against(path, 360.0) is True
    assert against(path, 340.0) is False
    assert against(path, 400.0) is True


def test_a_wide_spread_of_earlier_results_widens_the_limit(tmp_path: Path) -> None:
    steady = report(tmp_path, 370, 371, 369, 370, 372, name="steady.json")
    shaky = report(tmp_path, 370, 390, 350, 380, 360, name="shaky.json")
    assert against(steady, 345.0) is False
    assert against(shaky, 345.0) is True


def test_other_nodes_other_sizes_and_failed_runs_are_no_baseline(tmp_path: Path) -> None:
    baseline = Baseline.read([report(tmp_path, 370.0)])
    assert baseline.compare("nccl-all-reduce", NODES[:3], "busBandwidthGBps", 100.0, 16 * G) is None
    assert baseline.compare("nccl-all-reduce", NODES, "busBandwidthGBps", 100.0, 8) is None
    assert against(report(tmp_path, 370.0, verdict="failed"), 100.0) is None


def test_the_judge_holds_a_run_against_its_baseline(tmp_path: Path) -> None:
    judging = Judge(CATALOG, baseline=Baseline.read([report(tmp_path, 390.0, 391.0, 389.0)]))
    given = conditions(node_names=NODES)
    assert judging.judge(measured(385.0), given).passed
    verdict = judging.judge(measured(350.0), given)
    assert verdict.reason is Reason.THRESHOLD_VIOLATION
    assert "is worse than what this node set had: 390" in verdict.message
    assert "median of 3 earlier results" in verdict.message
    others = tuple(f"other-{number}" for number in range(4))
    assert judging.judge(measured(350.0, names=others), conditions(node_names=others)).passed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": [1]}', "not json"])
def test_something_else_than_a_report_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(CriteriaError, match="expected a"):
        Baseline.read([path])
    with pytest.raises(CriteriaError, match="found no file"):
        Baseline.read([tmp_path / "none.json"])


def samples(*values: float, **changes: object) -> list[Sample]:
    return [Sample(conditions(**changes), value, 16 * G) for value in values]  # type: ignore[arg-type]


def propose(found: list[Sample]) -> Profile:
    return propose_profile("ours", found, date="2026-12-01", source="session s1", transport="InfiniBand")


def test_a_profile_is_the_median_of_a_healthy_fleet_and_reads_back(tmp_path: Path) -> None:
    profile = propose(samples(371, 370, 369, 372, 368, 370))
    (row,) = profile.rows
    assert (row.value, row.kind, row.nodes, row.rails, row.gbps) == (370, "measured", 4, 8, 400)
    assert row.conditions == "median of 6 results, 368 to 372"
    (tmp_path / "ours.yaml").write_text(profile_yaml(profile))
    assert load([tmp_path]).profiles["ours"] == profile
    data = parse_yaml(profile_yaml(profile), "ours.yaml")
    assert check(Profile, data["profiles"][0], "ours.yaml") == profile


def test_a_proposed_profile_is_what_the_judge_then_expects(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(profile_yaml(propose(samples(391, 390, 389, 392, 388, 390))))
    verdict = Judge(load([tmp_path])).judge(measured(390.0), conditions())
    assert verdict.expected == 390
    assert "profile ours, measured, session s1" in verdict.message


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "no passed results"),
        (samples(370, 370, 370), "expected at least 5 results, found 3"),
        (samples(370, 371, 369, 372, 250, 251, 249, 252), "two populations, 4 around 250.5 and 4 around 370.5"),
        (samples(370, 300, 340, 400, 280, 320, 390, 260), "wider than 5%"),
        (samples(*[370.0] * 6, backend="gloo"), "gloo"),
        (samples(*[370.0] * 6) + samples(*[370.0] * 6, product="h200"), "one known product, found h100, h200"),
        (samples(*[370.0] * 6) + samples(*[185.0] * 6, gbps=200.0), "one fabric class"),
        (samples(*[480.0] * 6, nodes=2, ranks=16), "another algorithm than a ring"),
        (samples(*[370.0] * 6, rails=0, gbps=0.0), "line rate, found none"),
    ],
)
def test_a_sample_that_is_not_a_healthy_fleet_is_refused(found: list[Sample], words: str) -> None:
    with pytest.raises(CriteriaError, match="no profile proposed") as caught:
        propose(found)
    assert words in str(caught.value)


def test_one_population_with_an_outlier_is_not_two() -> None:
    draw = random.Random(3)
    for _ in range(200):
        values = [draw.gauss(370, 4) for _ in range(draw.choice([8, 20, 100]))]
        assert two_populations([*values, 200.0]) is None
    for share in (0.3, 0.5):
        values = [draw.gauss(370 if number > 40 * share else 330, 3) for number in range(40)]
        assert two_populations(values) is not None


def test_a_missed_bandwidth_has_causes_in_order_and_a_command_for_the_suspect() -> None:
    given = conditions(node_names=NODES)
    advice = explain(judge(measured(180.0), given), given, CATALOG, suspects=["node-2"])
    assert advice
    assert "slow" in advice[0].cause
    assert any("node-2" in each.command for each in advice)
    assert len({each.cause for each in advice}) == len(advice) <= 5


def test_the_size_of_the_miss_tells_one_rail_from_tcp() -> None:
    given = conditions(node_names=NODES)
    rail = explain(judge(measured(290.0), given), given, CATALOG)
    tcp = explain(judge(measured(10.0), given), given, CATALOG)
    assert "NIC of one node is down" in rail[0].cause
    assert "TCP" in tcp[0].cause


def test_a_fall_back_to_sockets_is_explained_as_such() -> None:
    run = measured(10.0, transport={"fallback_to_socket": True, "fallback_nodes": ["node-3"]})
    given = conditions(node_names=NODES)
    first = explain(judge(run, given), given, CATALOG)[0]
    assert "plugin" in first.cause
    assert "node-3" in first.command


@pytest.mark.parametrize("state", ["failed", "stalled", "timed_out"])
def test_every_broken_end_has_an_explanation(state: str) -> None:
    given = conditions(ended=ended(state, {9: 1} if state == "failed" else {}), node_names=NODES)
    assert explain(judge(None, given), given, CATALOG)


def test_a_pass_needs_no_explanation_and_placeholders_are_all_filled() -> None:
    given = conditions(node_names=NODES)
    assert explain(judge(measured(370.0), given), given, CATALOG) == ()
    for value in (10.0, 180.0, 290.0):
        for each in explain(judge(measured(value), given), given, CATALOG, most=99):
            assert "{node" not in each.text


def test_explanations_speak_of_metrics_and_reasons_that_exist() -> None:
    always_on = {"transport", "wrong", "loss", "exitCode", "state"}
    for explanation in CATALOG.explanations.values():
        assert set(explanation.when.metrics) <= set(METRICS) | always_on
        assert set(explanation.when.reasons) <= {str(reason) for reason in Reason}


@pytest.mark.parametrize("bound", [{"expr": "value >= 900"}, {"min": 900.0}])
def test_a_threshold_above_the_healthy_figure_is_explained_as_that_and_not_as_a_sick_fabric(
    bound: dict[str, Any],
) -> None:
    given = conditions(node_names=NODES)
    asked = [Threshold(metric="busBandwidthGBps", **bound)]
    missed = Judge(CATALOG, asked).judge(measured(370.0), given)
    assert "asks for more than is usual" in explain(missed, given, CATALOG)[0].cause
