"""The Kubernetes cluster: certified by real pods on the cluster's own nodes.

`KubernetesCluster(Settings(…))` implements the protocol of `cluster`. One gateway speaks to the API server in dicts;
manifests are dicts made from plain data; a run is a small state machine over what the watches have seen.
"""

from k8s.cluster import KubernetesCluster
from k8s.publish import publish, runner
from k8s.settings import Gang, Owner, Settings, Target

__all__ = ["Gang", "KubernetesCluster", "Owner", "Settings", "Target", "publish", "runner"]
