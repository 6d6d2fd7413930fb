"""What a session asks of Kubernetes, as one frozen object that the fixtures fill from options and certification file.

Plain data without a connection: it can be built, compared and rendered where no cluster is in reach, and nothing in
this room reads an option, an environment variable or a file of the user's besides it (the kubeconfig excepted).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Target:
    """Which nodes are to be certified; the filters of `spec.target`, all of which must hold."""

    node_selector: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    match_expressions: tuple[Mapping[str, Any], ...] = ()
    """`{key, operator, values}` as in a node affinity: In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    node_names: tuple[str, ...] = ()
    taint_selectors: tuple[Mapping[str, str], ...] = ()
    """`{key, value?, effect?}`: only nodes that carry all these taints, and the pods tolerate them."""


@dataclass(frozen=True, slots=True)
class Gang:
    """How pods are placed all together or not at all: a scheduler of `catalog/gangs`, by name, and the user's queue."""

    name: str
    queue: str = ""
    scheduler_name: str = ""
    """Another name under which the cluster runs that scheduler."""
    queue_label: str = ""
    """Another label key that names the queue."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The Job that the runner itself belongs to; what it launches goes when that Job goes."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All that `KubernetesCluster` must know. Empty means: as the cluster, the entry or the platform has it."""

    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""
    session: str = ""
    """Identity that outlives the runner (its Job's uid, or a state file's); a new one where empty."""
    lane: str = ""
    """Which of several processes of one session this is (an xdist worker); nodes are exclusive between lanes too."""
    owner: Owner | None = None
    launch_kind: str = "job"
    image: str = ""
    image_pull_policy: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    backend: str = "auto"
    """`nccl`, `gloo`, or `auto` (nccl where the node has GPUs). With gloo a pod asks for no GPU on its own."""
    resources: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Request and limit of each pod, by resource name; a value of `0` takes a resource away."""
    gpus_per_node: int = 0
    target: Target = Target()
    topology_keys: tuple[str, ...] = ()
    """Labels that say where a node stands, outermost first; empty: those of all clouds that we know."""
    platform: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    gang: Gang | None = None
    priority_class: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """More labels for what is launched (`workloadMetadata.labels`)."""
    annotations: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    catalog_dirs: tuple[str, ...] = ()
    """The user's catalog directories: platform rules and gang schedulers are read from there too."""
    stop_on_unhealthy: bool = True
    health: tuple[Mapping[str, str], ...] = ()
    """More health rules `{name, kind, when, message}` in CEL over `node` and `before`; a preset's name replaces it."""
    lease_s: float = 30.0
    """After this long without a sign of life a session's nodes are free for others."""
    cleanup_s: float = 60.0
    """How long clean-up may take before what is left is reported instead."""
