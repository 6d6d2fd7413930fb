"""What `kubectl apply -k` would create, and results that survive without a volume."""

from __future__ import annotations

import base64
import gzip
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from k8s import Owner
from k8s.publish import LIMIT, bundle, runner

DEPLOY = Path(__file__).resolve().parents[2] / "k8s" / "deploy"
Json = dict[str, Any]


def documents(path: Path) -> list[Json]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


def runner_job() -> Json:
    return documents(DEPLOY / "base" / "job.yaml")[0]


@pytest.mark.parametrize("name", ["namespace.yaml", "rbac.yaml", "job.yaml"])
def test_the_base_is_valid_for_its_schema(name: str) -> None:
    for item in documents(DEPLOY / "base" / name):
        kubernetes_validate.validate(item, "1.34", strict=True)


def test_the_runner_is_restricted() -> None:
    pod = runner_job()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_suites_own_exit_codes_end_the_job_and_a_disruption_does_not_count() -> None:
    spec = runner_job()["spec"]
    ignore, fail = spec["podFailurePolicy"]["rules"]
    assert ignore["action"] == "Ignore"
    assert ignore["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert fail["onExitCodes"]["values"] == [1, 2, 3, 4, 5, 6]
    assert spec["backoffLimit"] > 0


def test_no_right_to_write_a_node_is_shipped() -> None:
    for item in documents(DEPLOY / "base" / "rbac.yaml"):
        for rule in item.get("rules", []):
            if "nodes" in rule["resources"]:
                assert set(rule["verbs"]) <= {"get", "list", "watch"}
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


@pytest.mark.parametrize("overlay", ["", *sorted(path.name for path in (DEPLOY / "overlays").iterdir())])
def test_every_overlay_renders_with_one_namespace_throughout(overlay: str) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    folder = DEPLOY / "overlays" / overlay if overlay else DEPLOY
    rendered = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    items = [item for item in yaml.safe_load_all(rendered) if item]
    spaces = {item["metadata"]["namespace"] for item in items if "namespace" in item["metadata"]}
    spaces |= {subject["namespace"] for item in items for subject in item.get("subjects", [])}
    spaces |= {item["metadata"]["name"] for item in items if item["kind"] == "Namespace"}
    assert len(spaces) == 1


def test_files_are_bundled_by_importance_while_they_fit_and_the_others_are_named() -> None:
    noise = os.urandom(LIMIT)
    made = bundle({"report.json": b"{}", "huge.bin": noise, "junit.xml": b"<x/>"}, "PASSED")
    assert gzip.decompress(base64.b64decode(made["binaryData"]["report.json.gz"])) == b"{}"
    assert sorted(made["binaryData"]) == ["junit.xml.gz", "report.json.gz"]
    assert made["data"] == {"summary": "PASSED", "left-out": "huge.bin"}


def test_the_runners_job_is_session_and_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERPROOF_JOB_NAME", raising=False)
    assert runner() == ("", None)
    monkeypatch.setenv("CLUSTERPROOF_JOB_NAME", "clusterproof")
    monkeypatch.setenv("CLUSTERPROOF_JOB_UID", "u-1")
    assert runner() == ("u-1", Owner("clusterproof", "u-1"))
