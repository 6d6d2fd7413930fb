"""With npm's allure at hand (package.json, or `CLUSTERPROOF_ALLURE`): a real page from real results, offline."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import allure_commons
import pytest
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import TestResult as Result

from reports import allure
from reports.__main__ import CONFIG, find_allure
from tests.reports.sessions import cases

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_allure() is None, reason="npm's allure is not installed")]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "allure-results"
    logger = AllureFileLogger(str(folder))  # type: ignore[no-untyped-call]
    allure_commons.plugin_manager.register(logger)
    for number, case in enumerate(cases()):
        result = Result(uuid=str(number), name="test_case", fullName="suites#test_case", start=10**12, stop=10**12)
        allure.complete(result, case, session_start_ms=10**12)
        allure_commons.plugin_manager.hook.report_result(result=result)
    allure_commons.plugin_manager.unregister(logger)
    return folder


def generate(results: Path, config: str) -> Path:
    file = results.parent / "allurerc.yml"
    file.write_text(config, encoding="utf-8")
    page = results.parent / "page"
    command = [find_allure() or "", "generate", str(results), "--config", str(file), "--output", str(page)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return page


def test_failures_are_grouped_by_suspects_and_no_case_is_a_retry_of_another(results: Path) -> None:
    page = generate(results, CONFIG.read_text(encoding="utf-8").replace("singleFile: true", "singleFile: false"))
    categories = next(page.glob("**/widgets/**/categories.json"))
    nodes = json.loads(categories.read_text(encoding="utf-8"))["nodes"].values()
    assert "suspects: gpu-node-07, gpu-node-12" in {node["name"] for node in nodes}
    shown = [json.loads(path.read_text(encoding="utf-8")) for path in page.glob("**/data/test-results/*.json")]
    assert {each["name"] for each in shown if not each.get("isRetry")} == {case.id for case in cases()}


def test_the_shipped_configuration_makes_one_file(results: Path) -> None:
    page = generate(results, CONFIG.read_text(encoding="utf-8"))
    assert (page / "index.html").stat().st_size > 1_000_000
    assert not (page / "data").exists()
