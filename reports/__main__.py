"""`python -m reports RESULTS`: the pictures, the certificate and the Allure page of a finished session.

Everything is made again from what lies in the results directory, offline; nothing is measured. The Allure page needs
npm's `allure` (package.json); without it the rest is made all the same and the remedy is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from reports import charts
from reports.allure_files import write_allure_files
from reports.record import Record
from reports.writer import FINAL, REPORT, replace

ALLURE_RESULTS = "allure-results"
ALLURE_REPORT = "allure-report"
ALLURE_LIMIT_S = 900
CONFIG = Path(__file__).with_name("allurerc.yml")
ROOT = Path(__file__).parents[1]


class ReportError(Exception):
    """The results directory cannot be used: what was found, what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Build everything; prints one line a file. Exit code 0, or 4 where there is no report to build from."""
    parser = argparse.ArgumentParser(prog="python -m reports", description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path("results"), help="directory of a session's reports"
    )
    options = parser.parse_args(arguments)
    try:
        for line in build(options.results):
            print(line)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    return 0


def build(results: Path) -> Iterator[str]:
    """Make every derived file of a results directory; yields a line for each."""
    text = _read(results / REPORT)
    record = _parse(text, results / REPORT)
    digest = hashlib.sha256(text.encode()).hexdigest()
    for name, project in FINAL.items():
        replace(results / name, project(record, digest))
        yield f"wrote {results / name}"
    pictures = results / "charts"
    shutil.rmtree(pictures, ignore_errors=True)
    for stem, picture in charts.of_session(record):
        pictures.mkdir(exist_ok=True)
        (pictures / f"{stem}.png").write_bytes(picture)
        yield f"wrote {pictures / stem}.png"
    if (results / ALLURE_RESULTS).is_dir():
        write_allure_files(results / ALLURE_RESULTS, record)
        yield allure_page(results)


def allure_page(results: Path) -> str:
    """Generate the single-file Allure page; returns what became of it in a line."""
    program = find_allure()
    if program is None:
        return (
            "no Allure page: npm's allure is not installed; run `npm install` in "
            f"{ROOT} (Node 20 or newer) and this command again"
        )
    target = results / ALLURE_REPORT
    command = [program, "generate", str(results / ALLURE_RESULTS), "--config", str(CONFIG), "--output", str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ALLURE_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no Allure page: {error}"
    if done.returncode != 0 or not (page := target / "index.html").is_file():
        return f"no Allure page: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}"
    return f"wrote {page}"


def find_allure() -> str | None:
    """The program: where `CLUSTERPROOF_ALLURE` says, else beside this suite."""
    if named := os.environ.get("CLUSTERPROOF_ALLURE"):
        return named
    local = ROOT / "node_modules" / ".bin" / "allure"
    return str(local) if local.is_file() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReportError(
            f"{path}: {error.strerror}; give the directory that a session wrote (--report-dir, by default results)"
        ) from None


def _parse(text: str, path: Path) -> Record:
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise ReportError(
            f"{path}: not a report of this version (clusterproof.report/v1): {place}: {first['msg']}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
