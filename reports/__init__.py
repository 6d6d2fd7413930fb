"""The typed record of a session and everything that writes it out: JSON, JUnit, Allure, terminal, charts, certificate.

`reports.record` is the truth; each other module projects it into one format.
"""

from reports.record import (
    Budget,
    CaseRecord,
    Excluded,
    IsolationRecord,
    NodeRecord,
    Platform,
    Record,
    Session,
    Versions,
)
from reports.terminal import summary
from reports.verdict import because, result
from reports.writer import Writer

__all__ = [
    "Budget",
    "CaseRecord",
    "Excluded",
    "IsolationRecord",
    "NodeRecord",
    "Platform",
    "Record",
    "Session",
    "Versions",
    "Writer",
    "because",
    "result",
    "summary",
]
