"""A disposable cluster by kubeconfig, and a namespace of each test's own in it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from k8s import KubernetesCluster, Settings
from k8s.gateway import Gateway
from tests.k8s.driver import Driver

KUBECONFIG = os.environ.get("CLUSTERPROOF_TEST_KUBECONFIG", "")
IMAGE = os.environ.get("CLUSTERPROOF_TEST_IMAGE", "localhost/clusterproof:test")
Open = Callable[..., KubernetesCluster]


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    if not KUBECONFIG:
        pytest.skip("CLUSTERPROOF_TEST_KUBECONFIG names no cluster (tests/k8s/README.md says how to get one)")
    it = Gateway(KUBECONFIG)
    yield it
    it.close()


@pytest.fixture
def namespace(gateway: Gateway) -> Iterator[str]:
    name = f"clusterproof-test-{uuid.uuid4().hex[:8]}"
    gateway.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    gateway.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def open_cluster(namespace: str) -> Iterator[Open]:
    """Clusters in the test's namespace, closed at its end."""
    with ExitStack() as stack:

        def make(**more: Any) -> KubernetesCluster:
            given = {"kubeconfig": KUBECONFIG, "namespace": namespace, "image": IMAGE, "backend": "gloo", **more}
            cluster = KubernetesCluster(Settings(**given))
            stack.callback(cluster.close)
            return cluster

        yield make


@pytest.fixture
def driver(gateway: Gateway) -> Driver:
    found = Driver.from_environment()
    if found is None:
        pytest.skip("CLUSTERPROOF_TEST_DRIVER names no way to break nodes and links (tests/k8s/README.md)")
    return found


@pytest.fixture
def audit(gateway: Gateway) -> Path:
    path = os.environ.get("CLUSTERPROOF_TEST_AUDIT", "")
    if not path:
        pytest.skip("CLUSTERPROOF_TEST_AUDIT names no audit log (tests/k8s/README.md)")
    return Path(path)
