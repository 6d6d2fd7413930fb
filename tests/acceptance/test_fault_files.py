"""A simulation file of every kind of fault and every pair of kinds: the report names what is in it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import catalog
from tests.acceptance.driver import EXAMPLES, Certified, certify, differences
from tests.conftest import Certify

EXPECTED: dict[str, dict[str, Any]] = {
    name.removeprefix("faults/").removesuffix(".yaml"): wanted
    for name, wanted in catalog.read_yaml(EXAMPLES / "expect.yaml").items()
    if name.startswith("faults/")
}
SINGLE = [name for name in EXPECTED if "-and-" not in name]
SLOWER = {"scale", "systemic"}
"""Their searches take seconds: with the pairs."""


@pytest.mark.parametrize("name", [name for name in SINGLE if name not in SLOWER])
def test_the_largest_cases_name_the_one_fault_and_nothing_else(name: str, tmp_path: Path) -> None:
    done = certify(EXAMPLES / "faults" / f"{name}.yaml", tmp_path, "-k", "full")
    assert differences(done.found, EXPECTED[name]) == [], done.output
    assert done.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_the_whole_suite_names_what_the_file_contains_and_nothing_else(name: str, tmp_path: Path) -> None:
    done = certify(EXAMPLES / "faults" / f"{name}.yaml", tmp_path)
    assert differences(done.found, EXPECTED[name]) == [], done.output
    assert done.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nic", "systemic", "link-and-transient", "lost-and-health"])
def test_a_process_of_its_own_with_all_reports_says_the_same(name: str, certify: Certify) -> None:
    done = certify("-m", "communication", f"--simulation=docs/examples/faults/{name}.yaml")
    assert done.code == 1, done.output
    assert differences(Certified(done.code, done.report, done.output).found, EXPECTED[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_healthy_fabric_accuses_nobody_whatever_the_noise(block: int, tmp_path: Path) -> None:
    file = tmp_path / "healthy.yaml"
    for seed in range(20 * block, 20 * block + 20):
        file.write_text(f"nodes: 32\ntopology: {{block: 16, rack: 4}}\nseed: {seed}\nnoise: 0.01\n", encoding="utf-8")
        done = certify(file, tmp_path / str(seed), "-k", "full")
        assert done.found == set(), (seed, done.output)
        assert done.code == 0, (seed, done.output)
