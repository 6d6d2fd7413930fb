"""Results that survive without a volume: a ConfigMap with the compressed report, and the pod's termination message.

The ConfigMap is limited to 1 MiB, so files go in by importance while they fit, and those left out are named in it. It
has no owner: it must outlive the Job that wrote it.
"""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Mapping
from pathlib import Path

from cluster import ClusterError
from k8s import names
from k8s.connection import in_a_pod
from k8s.gateway import ApiError, Gateway, Json
from k8s.settings import Owner, Settings

LIMIT = 1_000_000
"""Bytes of base64; the API server takes 1 MiB for the whole object."""
MESSAGE_LIMIT = 4096
TERMINATION = Path("/dev/termination-log")
SUFFIX = ".gz"


def runner() -> tuple[str, Owner | None]:
    """Session and owner of a runner in a pod: its Job, by the downward API. Outside: ("", None).

    The Job's uid is the session, so that a pod that takes over from a crashed one goes on with the same session.
    """
    name, uid = os.environ.get("CLUSTERPROOF_JOB_NAME", ""), os.environ.get("CLUSTERPROOF_JOB_UID", "")
    return (uid, Owner(name, uid)) if name and uid else ("", None)


def bundle(files: Mapping[str, bytes], summary: str) -> Json:
    """Data of the ConfigMap: the summary as text and the files compressed, in the order given, while they fit."""
    binary: dict[str, str] = {}
    left_out: list[str] = []
    used = len(summary.encode())
    for name, content in files.items():
        packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
        if used + len(packed) > LIMIT:
            left_out.append(name)
            continue
        used += len(packed)
        binary[f"{name}{SUFFIX}"] = packed
    data = {"summary": summary}
    if left_out:
        data["left-out"] = "\n".join(left_out)
    return {"data": data, "binaryData": binary}


def publish(settings: Settings, files: Mapping[str, bytes], summary: str, *, name: str = "") -> str:
    """Write the ConfigMap (and in a pod the termination message); its name. Raises `ClusterError`.

    `name` is by default `<Job>-report`, outside a cluster `clusterproof-report`.
    """
    if in_a_pod() and TERMINATION.exists():
        TERMINATION.write_text(summary.encode()[-MESSAGE_LIMIT:].decode(errors="ignore"), encoding="utf-8")
    gateway = Gateway(settings.kubeconfig, settings.context)
    try:
        namespace = settings.namespace or gateway.namespace
        title = name or f"{settings.owner.name if settings.owner else 'clusterproof'}-report"
        labels = {names.MANAGED_BY: names.US}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": title, "namespace": namespace, "labels": labels},
            **bundle(files, summary),
        }
        try:
            gateway.create(names.core(namespace, "configmaps"), body)
        except ApiError as error:
            if error.status != 409:
                raise
            gateway.replace(names.core(namespace, "configmaps", title), body)
        return f"{namespace}/{title}"
    finally:
        gateway.close()


def fetch(name: str, directory: Path, kubeconfig: str = "") -> list[Path]:
    """Unpack `NAMESPACE/NAME` into a directory; the files written. Raises `ClusterError`."""
    namespace, _, title = name.partition("/")
    gateway = Gateway(kubeconfig)
    try:
        found = gateway.get(names.core(namespace, "configmaps", title))
    finally:
        gateway.close()
    if found is None:
        raise ClusterError(f"there is no ConfigMap {name}; kubectl get configmaps -n {namespace} lists them")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for key, packed in (found.get("binaryData") or {}).items():
        path = directory / Path(key.removesuffix(SUFFIX)).name
        path.write_bytes(gzip.decompress(base64.b64decode(packed)))
        written.append(path)
    (directory / "summary.txt").write_text((found.get("data") or {}).get("summary", ""), encoding="utf-8")
    return written
