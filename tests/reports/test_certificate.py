from __future__ import annotations

from pathlib import Path

import pytest
from lxml import html

from reports.__main__ import main
from reports.certificate import certificate_html, certificate_md
from reports.record import CaseRecord
from reports.sensitivity import seen
from tests.reports.sessions import cases, story


def test_the_certificate_says_what_was_tested_what_not_and_what_was_found() -> None:
    text = certificate_md(story(), "abc123")
    for part in (
        "**FAILED**",
        "The cluster was simulated: this page certifies no hardware.",
        "| nccl-all-reduce | full-scale | failed | 8 | 187 GB/s | 389 | 311.2 | h100 fabric, derived |",
        "gpu-node-07",
        "the other 6 nodes passed together",
        "| gpu-node-13 | excluded: cordoned |",
        "| GPU memory | none: not tested by this session |",
        "abc123",
        "2.27.3",
    ):
        assert part in text


def test_html_and_markdown_say_the_same_and_escape_what_they_must() -> None:
    odd = cases()[0].model_copy(update={"message": "a <b> | _c_", "isolation": None})
    record = story().model_copy(update={"cases": [odd]})
    page = html.fromstring(certificate_html(record, "abc"))
    assert "a <b> | _c_" in "".join(map(str, page.itertext()))
    assert "a \\<b\\> \\| \\_c\\_" in certificate_md(record, "abc")
    assert page.find(".//table") is not None


def test_what_a_session_could_see_follows_from_floors_and_runs() -> None:
    found = {each.component: each for each in seen(cases())}
    nvlink = found["NVLink inside its domain"]
    assert nvlink.runs == 1
    assert nvlink.smallest_loss == pytest.approx(1 - 368 / 455)
    assert "at least 95% of runs (1 run a node)" in nvlink.probability
    # The failing group's nodes passed together in a probe: failures would have shown, the loss was not judged.
    assert found["NICs, cables and leaf switches"].smallest_loss is None
    assert found["GPU compute"].size == "none: not tested by this session"


def test_probes_that_passed_say_how_small_a_loss_would_have_shown() -> None:
    case = cases()[0]
    assert case.isolation is not None
    probes = [probe.model_copy(update={"floor": 311.2}) for probe in case.isolation.probes]
    isolated = case.model_copy(update={"isolation": case.isolation.model_copy(update={"probes": probes})})
    found = {each.component: each for each in seen([isolated])}
    assert found["NICs, cables and leaf switches"].smallest_loss == pytest.approx(1 - 311.2 / 388.1)


def test_more_runs_see_rarer_faults() -> None:
    case = CaseRecord(id="a", verdict="passed", backend="nccl", layer="fabric", nodes=["n1", "n2"], value=390.0)
    found = {each.component: each for each in seen([case] * 10)}
    assert "26% of runs (10 runs a node)" in found["NICs, cables and leaf switches"].probability


def test_a_cpu_session_certifies_no_gpu() -> None:
    record = story().model_copy(update={"cases": [cases()[1].model_copy(update={"backend": "gloo"})]})
    assert "this page certifies no GPU" in certificate_md(record, "x")


def test_the_command_builds_everything_from_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_text(story().to_json(), encoding="utf-8")
    assert main([str(tmp_path)]) == 0
    assert "certificate.html" in capsys.readouterr().out
    assert len(list((tmp_path / "charts").glob("*.png"))) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "give the directory"), ("{", "not a report"), ('{"schema": "other/v9"}', "not a report")],
)
def test_a_directory_without_a_report_is_one_clear_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content, encoding="utf-8")
    assert main([str(tmp_path)]) == 4
    error = capsys.readouterr().err
    assert said in error
    assert str(tmp_path) in error


def test_without_npm_the_rest_is_built_and_the_remedy_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.__main__.find_allure", lambda: None)
    (tmp_path / "report.json").write_text(story().to_json(), encoding="utf-8")
    (tmp_path / "allure-results").mkdir()
    assert main([str(tmp_path)]) == 0
    assert "npm install" in capsys.readouterr().out
    assert (tmp_path / "allure-results" / "categories.json").is_file()
