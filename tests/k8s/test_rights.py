"""Least privilege on the real API server: the runner works with exactly the rights that are shipped, and uses each."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ClusterError, Run, RunState, Stop
from k8s import KubernetesCluster, Settings, publish
from k8s.gateway import ApiError, Gateway
from tests.k8s.conftest import IMAGE, KUBECONFIG
from tests.k8s.things import workload

RBAC = Path(__file__).resolve().parents[2] / "k8s" / "deploy" / "base" / "rbac.yaml"
GROUP = "/apis/rbac.authorization.k8s.io/v1"
Json = dict[str, Any]


def shipped(kind: str) -> Json:
    found: Json = next(item for item in yaml.safe_load_all(RBAC.read_text()) if item["kind"] == kind)
    return found


def rights() -> list[tuple[str, int, str]]:
    """(kind, rule, verb) of every single right."""
    return [
        (kind, place, verb)
        for kind in ("Role", "ClusterRole")
        for place, rule in enumerate(shipped(kind)["rules"])
        for verb in rule["verbs"]
    ]


class Account:
    """A service account in the test's namespace, with the shipped rights or fewer."""

    def __init__(self, gateway: Gateway, namespace: str, folder: Path) -> None:
        self.gateway, self.namespace, self.folder = gateway, namespace, folder
        self.cluster_name = f"{namespace}-nodes"
        core = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        gateway.create(core, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "clusterproof"}})
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        token = gateway.create(f"{core}/clusterproof/token", request)["status"]["token"]
        config = yaml.safe_load(Path(KUBECONFIG).read_text())
        config["users"] = [{"name": "sa", "user": {"token": token}}]
        for context in config["contexts"]:
            context["context"] |= {"user": "sa", "namespace": namespace}
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))

    def grant(self, without: tuple[str, int, str] | None = None) -> None:
        subject = {"kind": "ServiceAccount", "name": "clusterproof", "namespace": self.namespace}
        for kind, name, path in (
            ("Role", "clusterproof", f"{GROUP}/namespaces/{self.namespace}"),
            ("ClusterRole", self.cluster_name, GROUP),
        ):
            role = copy.deepcopy(shipped(kind))
            role["metadata"] = {"name": name}
            if without and without[0] == kind:
                role["rules"][without[1]]["verbs"].remove(without[2])
            role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
            collection = f"{path}/{kind.lower()}s"
            self._write(collection, role)
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
            binding = {
                "kind": f"{kind}Binding",
                "metadata": {"name": name},
                "roleRef": reference,
                "subjects": [subject],
            }
            self._write(f"{path}/{kind.lower()}bindings", {"apiVersion": "rbac.authorization.k8s.io/v1", **binding})
        time.sleep(0.5)

    def _write(self, collection: str, body: Json) -> None:
        try:
            self.gateway.create(collection, body)
        except ApiError as error:
            if error.status != 409:
                raise
            self.gateway.replace(f"{collection}/{body['metadata']['name']}", body)

    def remove(self) -> None:
        for kind in ("clusterroles", "clusterrolebindings"):
            self.gateway.delete(f"{GROUP}/{kind}/{self.cluster_name}")

    def _leave_lease(self, node: str) -> None:
        """Another session died on the node a moment ago."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2026-12-01T10:00:00.000000Z"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}
        self.gateway.create(path, lease)

    def work(self) -> list[Run]:
        """What a session does: take over a node, adopt a run that succeeds, one that admission refuses, a report."""
        settings = Settings(
            kubeconfig=str(self.folder / "kubeconfig"), image=IMAGE, backend="gloo", cleanup_s=10, lease_s=3
        )
        cluster = KubernetesCluster(settings)
        try:
            nodes = tuple(node.name for node in cluster.nodes().nodes)[:1]
            program = {"framework": "exec", "program": "sh", "start_limit_s": 40.0}
            good = workload(*nodes, name="good", arguments=("-c", "sleep 3; echo done"), **program)
            plan, kind = cluster.plan(good)
            self.gateway.create(kind.collection(self.namespace), kind.root(plan))
            self._leave_lease(nodes[0])
            runs = [cluster.run(good, Stop(), lambda _: None)]
            bad = workload(*nodes, name="refused", arguments=("-c", "true"), resources={"memory": "2Mi"}, **program)
            runs.append(cluster.run(bad, Stop(), lambda _: None))
            for _ in range(2):
                publish(Settings(kubeconfig=settings.kubeconfig), {"report.json": b"{}"}, "summary")
            return runs
        finally:
            cluster.close()


@pytest.fixture
def account(gateway: Gateway, namespace: str, tmp_path: Path) -> Iterator[Account]:
    it = Account(gateway, namespace, tmp_path)
    limits = {"type": "Container", "min": {"memory": "4Mi"}}
    floor = {"kind": "LimitRange", "metadata": {"name": "floor"}, "spec": {"limits": [limits]}}
    gateway.create(f"/api/v1/namespaces/{namespace}/limitranges", {"apiVersion": "v1", **floor})
    yield it
    it.remove()


def as_it_should(runs: list[Run]) -> bool:
    good, refused = runs
    return (
        good.state is RunState.SUCCEEDED
        and good.log == b"done\n"
        and good.leftovers == ()
        and refused.state is RunState.LAUNCH_FAILED
        and "minimum memory" in refused.message
    )


@pytest.mark.slow  # 12 s
def test_the_shipped_rights_suffice(account: Account) -> None:
    account.grant()
    runs = account.work()
    assert as_it_should(runs), runs


@pytest.mark.slow  # four minutes: a session for each right taken away
@pytest.mark.parametrize("right", rights(), ids=lambda right: "-".join(map(str, right)))
def test_taking_any_right_away_is_noticed(
    account: Account, right: tuple[str, int, str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    account.grant(without=right)
    with caplog.at_level("DEBUG", logger="k8s"):
        try:
            fine = as_it_should(account.work())
        except ClusterError:
            fine = False
    assert not fine or "forbidden" in caplog.text
