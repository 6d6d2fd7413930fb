"""`KubernetesCluster`: the protocol of `cluster`, kept by the pieces of this room.

Cheap to construct and quiet until it is used: the first call connects, takes one list+watch of nodes and one of the
suite's pods, and all runs of the session share them, so that the API server's work is constant per workload.
"""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import replace

from catalog import Catalog, CatalogError, load
from cluster import ClusterError, Inventory, Progress, Run, RunState, Stop, Workload
from k8s import discovery, names, platforms, pods
from k8s.execution import Execution
from k8s.gateway import ApiError, Gateway, Json
from k8s.health import Watcher
from k8s.kinds import KINDS, Kind, dependants, first
from k8s.lease import Leases
from k8s.plan import Plan, make
from k8s.room import Room
from k8s.settings import Settings
from k8s.watch import View

LOG = logging.getLogger(__name__)


class KubernetesCluster:
    """A real cluster; every workload is pods on the nodes it names."""

    name = "kubernetes"

    def __init__(self, settings: Settings | None = None, catalog: Catalog | None = None) -> None:
        """Raises `ClusterError` for settings that cannot be meant; connects to nothing yet."""
        given = settings or Settings()
        self.settings = given if given.session else replace(given, session=uuid.uuid4().hex[:12])
        self.kind = _kind(self.settings.launch_kind)
        self._watcher = Watcher(self.settings.health)
        self._rules = platforms.rules()
        self._catalog = catalog
        self._lock = threading.Lock()
        self._room: Room | None = None
        self._inventory: Inventory | None = None

    # --- the protocol -----------------------------------------------------------------------------------------------

    def nodes(self) -> Inventory:
        """The snapshot. Raises `ClusterError` where the cluster cannot be read."""
        room = self._open()
        if self._inventory is None:
            version = str(room.gateway.json("GET", "/version").get("gitVersion", ""))
            found = discovery.inventory(room.nodes.all(), self.settings, self._watcher, version)
            self._inventory = found
        return self._inventory

    def run(self, workload: Workload, stop: Stop, progress: Progress) -> Run:
        """Launch, wait, gather, remove; see the protocol."""
        room = self._open()
        try:
            plan, kind = self.plan(workload)
        except ApiError:
            raise
        except ClusterError as error:
            return Run(workload, RunState.LAUNCH_FAILED, str(error))
        return Execution(room, plan, kind, stop, progress).run()

    def close(self) -> None:
        """Remove everything of this session that is left, give the leases back, stop watching."""
        room, self._room = self._room, None
        if room is None:
            return
        try:
            self._sweep(room)
            room.leases.close()
        except ClusterError as error:
            LOG.warning("clean-up at the end: %s", error)
        finally:
            room.nodes.close()
            room.pods.close()
            room.gateway.close()

    # --- more than the protocol -------------------------------------------------------------------------------------

    def plan(self, workload: Workload) -> tuple[Plan, Kind]:
        """What would be launched. Raises `ClusterError` where something is missing that only the user can say."""
        room = self._open()
        known = {str(node["metadata"]["name"]): node for node in room.nodes.all()}
        gone = [name for name in workload.nodes if name not in known]
        if gone:
            raise ClusterError(f"the cluster has no node {', '.join(gone[:8])} (any more)")
        patch = platforms.merge(self._rules, self._facts(workload, known[workload.nodes[0]]))
        kind = _kind(str(workload.extra.get("launchKind") or self.settings.launch_kind))
        return make(workload, self.settings, room.namespace, known, patch=patch, longest=kind.longest), kind

    def render(self, workload: Workload) -> list[Json]:
        """The objects that `run` would create, but for the owner's uid."""
        plan, kind = self.plan(workload)
        root = kind.root(plan)
        known = {**root, "metadata": {**root["metadata"], "uid": "(given by the API server)"}}
        return [body for _, body in first(plan, kind)] + [root] + [body for _, body in dependants(plan, kind, known)]

    def _facts(self, workload: Workload, node: Json) -> dict[str, str]:
        if self._catalog is None:
            try:
                self._catalog = load(self.settings.catalog_dirs)
            except CatalogError as error:
                raise ClusterError(str(error)) from error
        accelerator = self._catalog.accelerator_for(discovery.product_of(node["metadata"]["labels"]))
        entry = self._catalog.entries.get(workload.entry)
        return {
            "platform": self.settings.platform or discovery.platform_of(node),
            "accelerator": accelerator.name if accelerator else "",
            "framework": workload.framework,
            "backend": workload.backend,
            "domain": entry.domain if entry else "",
        }

    def _open(self) -> Room:
        with self._lock:
            if self._room is None:
                self._room = self._connect()
            return self._room

    def _connect(self) -> Room:
        settings = self.settings
        gateway = Gateway(settings.kubeconfig, settings.context)
        namespace = settings.namespace or gateway.namespace
        nodes = View(gateway, "/api/v1/nodes", (), discovery.trim)
        mine = View(gateway, names.core(namespace, "pods"), [names.OURS], pods.trim, index_label=names.RUN)
        try:
            nodes.start()
            mine.start()
        except ApiError as error:
            gateway.close()
            if error.status == 403:
                raise ClusterError(
                    f"{error.message}. The suite needs the rights in k8s/deploy (rbac.yaml) in namespace {namespace}."
                ) from error
            raise
        holder = f"{settings.session}/{settings.lane}" if settings.lane else settings.session
        leases = Leases(gateway, namespace, holder, settings.lease_s)
        return Room(gateway, settings, namespace, nodes, mine, leases, self._watcher)

    def _sweep(self, room: Room) -> None:
        """Delete what this session launched and nobody waited for any more (an earlier runner's probes)."""
        selector = f"{names.SESSION}={names.label(self.settings.session)}"
        left, _ = room.gateway.items(self.kind.collection(room.namespace), [("labelSelector", selector)])
        for item in left:
            room.gateway.delete(self.kind.path(room.namespace, str(item["metadata"]["name"])))


def _kind(name: str) -> Kind:
    kind = KINDS.get(name)
    if kind is None:
        raise ClusterError(f"launch kind {name!r}: expected one of {', '.join(sorted(KINDS))}")
    return kind
