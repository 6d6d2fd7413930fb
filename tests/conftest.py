"""What the project's tests share: the marker for slow ones, and running the suite as a user does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

HOUSE = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    steady_examples()
    config.addinivalue_line("markers", "slow: takes more than a few seconds; not part of `make test`")


def steady_examples() -> None:
    """The same examples every time, so that a red run means a change; CLUSTERPROOF_FUZZ=1 looks for new ones.

    pytest also loads this file when it looks for tests under a mistyped option, where Hypothesis need not be installed.
    """
    with contextlib.suppress(ModuleNotFoundError):
        from hypothesis import settings

        settings.register_profile("steady", derandomize=True, deadline=None)
        settings.register_profile("fuzz", deadline=None, max_examples=2000)
        settings.load_profile("fuzz" if os.environ.get("CLUSTERPROOF_FUZZ") else "steady")


@dataclass(frozen=True)
class Certification:
    """One run of the suite by command line."""

    code: int
    output: str
    folder: Path

    @cached_property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        return found

    def case(self, case_id: str) -> dict[str, Any]:
        found: dict[str, Any] = next(case for case in self.report["cases"] if case["id"] == case_id)
        return found


Certify = Callable[..., Certification]


def command(*arguments: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--report-dir={folder}", *arguments]


@pytest.fixture
def certify(tmp_path: Path) -> Certify:
    """Run `pytest ARGUMENTS` in the repository as a user would; reports land in a folder of the test."""

    def run(*arguments: str, cwd: Path = HOUSE, name: str = "results") -> Certification:
        folder = tmp_path / name
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        done = subprocess.run(
            command(*arguments, folder=folder),
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        return Certification(done.returncode, done.stdout, folder)

    return run
