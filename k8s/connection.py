"""Credentials, TLS and one attempt at one request: all that is used of the official Python client.

Apart from the gateway because it is about *where* the server is and *who* we are (a kubeconfig outside, the service
account inside a pod), not about what to do when an attempt fails. Whatever urllib3 raises leaves here as
`BrokenError` with the innermost words, so that nothing above knows which library moves the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import ClusterError

CONNECT_S = 10.0
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Query = Sequence[tuple[str, str | int]]


class BrokenError(Exception):
    """An attempt or a stream ended in the middle, could not begin, or fell silent."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call in plain words."""

    method: str
    path: str
    query: Query = ()
    body: Any = None
    kind: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, the body still unread."""

    status: int
    headers: dict[str, str]
    raw: Any

    def read(self, limit: int | None = None) -> bytes:
        """The body, or its first `limit` bytes; `BrokenError` where it breaks off."""
        try:
            data = bytes(self.raw.read(limit))
        except _broken() as problem:
            raise BrokenError(cause(problem)) from problem
        if limit is None:
            self.raw.release_conn()
        else:
            self.raw.close()
        return data

    def pieces(self) -> Iterator[bytes]:
        """The body of an endless answer, piece by piece as it comes; `BrokenError` where it breaks off."""
        try:
            yield from self.raw.stream(65536)
        except _broken() as problem:
            raise BrokenError(cause(problem)) from problem
        finally:
            self.raw.close()


class Connection:
    """One pool of connections to one cluster; safe to use from many threads."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        """Reads the kubeconfig, or in a pod the service account; `ClusterError` where neither is usable."""
        # The client takes half a second to import; only a session that talks to Kubernetes pays for it.
        import urllib3  # noqa: PLC0415
        from kubernetes import config  # noqa: PLC0415
        from kubernetes.client import ApiClient, Configuration  # noqa: PLC0415

        kube: Any = config
        configuration = Configuration()
        try:
            if kubeconfig or not in_a_pod():
                kube.load_kube_config(kubeconfig or None, context or None, configuration)
                contexts, active = kube.list_kube_config_contexts(kubeconfig or None)
                chosen = next(item for item in contexts if item["name"] == context) if context else active
                self.namespace = str(chosen["context"].get("namespace") or "default")
            else:
                kube.load_incluster_config(configuration)
                self.namespace = (ACCOUNT / "namespace").read_text().strip() or "default"
        except (kube.ConfigException, OSError, StopIteration, LookupError, TypeError, ValueError) as error:
            where = kubeconfig or "$KUBECONFIG or ~/.kube/config"
            raise ClusterError(
                f"no usable connection to a Kubernetes cluster ({where}): {error}. Give one with --kubeconfig=FILE."
            ) from error
        configuration.keep_alive = True
        configuration.retries = urllib3.Retry(0)
        configuration.connection_pool_maxsize = 64
        self._client: Any = ApiClient(configuration)

    def send(self, request: Request, read_s: float) -> Answer:
        """One attempt; any status is an answer. `BrokenError` where none came within `read_s` of silence."""
        headers = {"Accept": "application/json, */*", "Content-Type": request.kind}
        ready = self._client.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query),
            header_params=headers,
            body=request.body,
            auth_settings=["BearerToken"],
        )
        try:
            raw = self._client.call_api(*ready, _request_timeout=(CONNECT_S, read_s)).response
        except _broken() as problem:
            raise BrokenError(cause(problem)) from problem
        return Answer(int(raw.status), dict(raw.headers), raw)

    def close(self) -> None:
        """Let go of idle connections."""
        self._client.rest_client.pool_manager.clear()


def in_a_pod() -> bool:
    """Whether a service account of this pod can be used."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (ACCOUNT / "token").exists()


def _broken() -> tuple[type[BaseException], ...]:
    import urllib3  # noqa: PLC0415
    from kubernetes.client import ApiException  # noqa: PLC0415

    return (urllib3.exceptions.HTTPError, ApiException, OSError)


def cause(problem: BaseException) -> str:
    """The innermost words of nested errors."""
    inner = getattr(problem, "reason", None)
    return cause(inner) if isinstance(inner, BaseException) else f"{type(problem).__name__}: {problem}"
