"""Communication: collectives among the accelerators of a node set, each element checked, each size measured."""

import pytest

from fixtures import WorkloadHandle


@pytest.mark.domain("communication")
def test_communication(workload: WorkloadHandle) -> None:
    """Every rank ends well, every element is right, the sweep is whole and the bandwidth reaches its floor."""
    measurement = workload.measurement
    verdict = workload.judge(measurement)
    assert verdict.passed, verdict.message
