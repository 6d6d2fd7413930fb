"""Names, labels and paths of everything the suite puts into a cluster, in one place.

A name follows from session and workload alone, so that a restarted runner finds what it launched before and adopts it
instead of running it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re

from cluster import Workload

MANAGED_BY = "app.kubernetes.io/managed-by"
US = "clusterproof"
SESSION = "clusterproof.io/session"
RUN = "clusterproof.io/run"
WORKLOAD = "clusterproof.io/workload"
"""Annotation: digest of the workload, so that only the very same one is adopted."""
OURS = ("labelSelector", f"{MANAGED_BY}={US}")
LONGEST = 56
"""A pod of an Indexed Job is called JOB-INDEX on the network: 63 characters at most, for up to 99,999 pods."""


def run_name(session: str, workload: str, longest: int = LONGEST) -> str:
    """Name of the run's objects, of at most `longest` characters."""
    if not workload[:1].isalpha():
        workload = f"w-{workload}"  # a Service's name begins with a letter
    stem = re.sub(r"[^a-z0-9]+", "-", session.lower()).strip("-")[:6].strip("-")
    name = f"{workload}-{stem}" if stem else workload
    if len(name) <= longest and len(session) <= 6:
        return name
    digest = hashlib.sha256(f"{session}\n{workload}".encode()).hexdigest()[:6]
    return f"{workload[: longest - 7].rstrip('-')}-{digest}"


def fingerprint(workload: Workload) -> str:
    """Digest of everything that makes a workload what it is."""
    plain = {field.name: getattr(workload, field.name) for field in dataclasses.fields(workload)}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=dict).encode()).hexdigest()[:32]


def core(namespace: str, resource: str, name: str = "") -> str:
    """Path of a collection or object of the core group."""
    return f"/api/v1/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def grouped(group: str, namespace: str, resource: str, name: str = "") -> str:
    """The same in a named group, `batch/v1`."""
    return f"/apis/{group}/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def label(session: str) -> str:
    """The session as a label value: at most 63 of the characters that labels may have."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "-", session).strip("-_.")
    return clean if len(clean) <= 63 else hashlib.sha256(session.encode()).hexdigest()[:32]
