"""Expected values and verdicts: what must always hold, explicit bounds, healthy figures, and peers of the same session.

A verdict names the metric, the value, the expectation, where it came from and the margin. It fails closed.
"""

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

__all__ = [
    "METRICS",
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
    "Verdict",
    "metrics",
]
