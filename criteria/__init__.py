"""Expected values and verdicts: what must always hold, explicit bounds, healthy figures, and peers of the same session.

A verdict names the metric, the value, the expectation, where it came from and the margin. It fails closed.
"""

from criteria.explain import Advice, explain
from criteria.history import Baseline
from criteria.judge import Judge
from criteria.metrics import METRICS, Metric, metrics
from criteria.model import (
    Check,
    Conditions,
    CriteriaError,
    Ended,
    Event,
    Exit,
    Hint,
    Outcome,
    Reason,
    Verdict,
)
from criteria.peers import Outlier, Peers
from criteria.proposal import Sample, profile_yaml, propose_profile
from criteria.training import goodput, stalled_after

__all__ = [
    "METRICS",
    "Advice",
    "Baseline",
    "Check",
    "Conditions",
    "CriteriaError",
    "Ended",
    "Event",
    "Exit",
    "Hint",
    "Judge",
    "Metric",
    "Outcome",
    "Outlier",
    "Peers",
    "Reason",
    "Sample",
    "Verdict",
    "explain",
    "goodput",
    "metrics",
    "profile_yaml",
    "propose_profile",
    "stalled_after",
]
