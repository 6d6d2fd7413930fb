"""The whole suite on real pods, from outside by a kubeconfig and as the Job of k8s/deploy; real faults are named."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from k8s.gateway import Gateway
from tests.conftest import HOUSE, Certification, Certify
from tests.k8s.conftest import IMAGE, KUBECONFIG
from tests.k8s.driver import Driver

GLOO = """
apiVersion: clusterproof.io/v1alpha1
kind: Certification
metadata: {{name: pods}}
spec:
  options: {{backend: gloo, image: "{image}", resources: {{cpu: 100m}}}}
  thresholds: {{busBandwidthGBps: {{min: {floor}}}}}
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options: {{minBytes: 1M, maxBytes: 4M, numIterations: 3, numCycles: 2, stallTimeout: 45s}}
"""
FLOOR = 0.05
"""GB/s of an all-reduce over links of 1 Gb/s, of which healthy ones give about 0.11 and one of 100 Mb/s 0.012."""


def certification(folder: Path, floor: float = FLOOR) -> str:
    path = folder / "certification.yaml"
    path.write_text(GLOO.format(image=IMAGE, floor=floor), encoding="utf-8")
    return f"--certification={path}"


def run(certify: Certify, folder: Path, namespace: str, *more: str) -> Certification:
    return certify(
        *("-m", "communication", "--cluster", "kubernetes", f"--kubeconfig={KUBECONFIG}", "--namespace", namespace),
        certification(folder),
        *more,
    )


def isolation(done: Certification) -> dict[str, Any]:
    found: dict[str, Any] = done.report["cases"][0]["isolation"]
    return found


def test_a_healthy_cluster_passes_from_a_kubeconfig(certify: Certify, tmp_path: Path, namespace: str) -> None:
    done = run(certify, tmp_path, namespace)
    assert done.code == 0, done.output
    (case,) = done.report["cases"]
    assert case["verdict"] == "passed"
    assert case["measurement"]["ranks"] == len(case["nodes"]) == 4
    assert done.report["versions"]["kubernetes"].startswith("v1.")


@pytest.mark.slow
def test_a_slow_node_is_named_and_the_others_are_certified(
    certify: Certify, tmp_path: Path, namespace: str, driver: Driver
) -> None:
    """About two minutes: eight runs of real pods."""
    with driver.rate("n3", "100mbit", "1gbit"):
        done = run(certify, tmp_path, namespace)
    assert done.code == 1, done.output
    assert [each["node"] for each in isolation(done)["suspects"]] == ["n3"]
    assert sorted(isolation(done)["certified_rest"]["nodes"]) == ["n1", "n2", "n4"]
    assert done.report["cases"][0]["message"].startswith("suspects: n3 | ")


@pytest.mark.slow
def test_a_blocked_pair_is_a_link_and_accuses_neither_node(
    certify: Certify, tmp_path: Path, namespace: str, driver: Driver
) -> None:
    with driver.blocked("n1", "n3"):
        done = run(certify, tmp_path, namespace)
    assert done.code == 1, done.output
    assert [each["between"] for each in isolation(done)["links"]] == [["n1", "n3"]]
    assert isolation(done)["suspects"] == []


@pytest.mark.slow
def test_a_node_that_dies_in_the_middle_is_lost_and_nobody_is_accused(
    certify: Certify, tmp_path: Path, namespace: str, driver: Driver
) -> None:
    try:
        driver.stop("n4")
        done = run(certify, tmp_path, namespace)
    finally:
        driver.start("n4")
    assert done.code in {1, 6}, done.output
    lost = {node["name"]: node["verdict"] for node in done.report["nodes"]}.get("n4")
    excluded = [each["node"] for each in done.report["excluded"]]
    assert lost == "lost" or excluded == ["n4"], done.output
    assert not any(node["verdict"] == "suspect" for node in done.report["nodes"])


def test_the_job_of_the_deployment_certifies_as_it_is(gateway: Gateway, tmp_path: Path) -> None:
    """`kubectl apply -k` of the test overlay: who runs it, how restricted, and what comes out."""
    overlay = HOUSE / "k8s" / "deploy" / "overlays" / "test"
    namespace = "clusterproof-ci"

    def kubectl(*arguments: str) -> str:
        command = ["kubectl", "--kubeconfig", KUBECONFIG, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    kubectl("apply", "-k", str(overlay))
    try:
        pod = wait_for_runner(gateway, namespace)
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        log = kubectl("-n", namespace, "logs", pod["metadata"]["name"])
        assert state["exitCode"] == 0, log
        assert "clusterproof PASSED" in log
        assert "clusterproof PASSED" in state["message"]
        spec = pod["spec"]
        assert spec["serviceAccountName"] == "clusterproof"
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
        published = gateway.get(f"/api/v1/namespaces/{namespace}/configmaps/clusterproof-report")
        assert published is not None
        report = json.loads(gzip.decompress(base64.b64decode(published["binaryData"]["report.json.gz"])))
        assert report["result"] == "PASSED"
        assert {case["entry"] for case in report["cases"]} == {"nccl-loopback", "nccl-all-reduce", "nccl-all-gather"}
        assert "junit.xml.gz" in published["binaryData"]
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
        kubectl("delete", "-k", str(overlay), "--ignore-not-found", "--wait=false")


def wait_for_runner(gateway: Gateway, namespace: str) -> dict[str, Any]:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        pods, _ = gateway.items(f"/api/v1/namespaces/{namespace}/pods", [("labelSelector", "job-name=clusterproof")])
        for pod in pods:
            statuses = pod.get("status", {}).get("containerStatuses") or [{}]
            if statuses[0].get("state", {}).get("terminated"):
                found: dict[str, Any] = pod
                return found
        time.sleep(1)
    raise AssertionError("the runner's pod did not end")
