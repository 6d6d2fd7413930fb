"""The files beside Allure's results: what the run was (`environment.properties`), how failures are sorted.

`categories.json` is read by Allure 2 (by patterns of the message); Allure 3 takes its categories from a configuration,
ours is `reports/allurerc.yml`, which groups failures by suspect.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from reports.record import Record
from reports.text import one_line
from reports.writer import replace

CATEGORIES = [
    {"name": "Inconclusive", "messageRegex": r"(?s)inconclusive:.*", "matchedStatuses": ["failed"]},
    {"name": "Suspect nodes", "messageRegex": r"(?s)suspects?:.*", "matchedStatuses": ["failed"]},
    {"name": "Links and domains", "messageRegex": r"(?s)(link|domain|size|systemic):.*", "matchedStatuses": ["failed"]},
    {"name": "Could not run", "matchedStatuses": ["broken"]},
    {"name": "Other failures", "matchedStatuses": ["failed"]},
    {"name": "Not run", "matchedStatuses": ["skipped"]},
]
"""By what messages begin with. Allure 2 takes every category that matches: they are ordered, not exclusive."""


def write_allure_files(directory: Path, record: Record) -> None:
    """Write `environment.properties` and `categories.json` into a directory of Allure results."""
    replace(directory / "environment.properties", environment(record))
    replace(directory / "categories.json", json.dumps(CATEGORIES, indent=2) + "\n")


def environment(record: Record) -> str:
    """Java properties, ISO 8859-1 with escapes: what a reader of the report must know of the run."""
    versions = record.versions
    facts = {
        "Result": record.result,
        "Run.state": record.run_state,
        "Cluster": record.platform.cluster,
        "Platform": record.platform.name,
        "Nodes": str(len(record.nodes)),
        "Accelerators": ", ".join(sorted({node.product for node in record.nodes if node.product})),
        "Excluded": str(len(record.excluded)),
        "Suite": versions.suite,
        "Kubernetes": versions.kubernetes,
        "Driver": versions.driver,
        "CUDA": versions.cuda,
        "NCCL": versions.nccl,
        "PyTorch": versions.torch,
        **{f"Image.{image}": digest for image, digest in versions.images.items()},
        "Specification": record.session.spec_hash,
        "Command": " ".join(record.session.command),
    }
    return "".join(f"{_escape(key, key=True)} = {_escape(value)}\n" for key, value in facts.items() if value)


def _escape(text: str, *, key: bool = False) -> str:
    line = one_line(text).replace("\\", "\\\\")
    line = re.sub(r"([\s=:#!])", r"\\\1", line) if key else line
    return "".join(each if " " <= each <= "~" else f"\\u{ord(each):04x}" for each in line)
