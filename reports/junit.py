"""`junit-nodes.xml`: one test case a node, so that every CI shows suspects by itself, with a history per node.

pytest's own `junit.xml` has one test case a case; what a person repairs is a node. Names are the bare node names
under one class name, so they are stable from run to run and never twice in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from junit_xml import TestCase, TestSuite, to_xml_report_string

from reports.record import NodeRecord, NodeVerdict, Record
from reports.text import one_line, plural

CLASS_NAME = "certification.nodes"
MESSAGE_LIMIT = 400
TEXT_LIMIT = 4000
"""Characters a node: tens of thousands of failing nodes stay far below the 30 MB that GitLab reads."""


def nodes_xml(record: Record) -> str:
    """The file's text."""
    cases = [_case(node) for node in record.nodes]
    seen = {node.name for node in record.nodes}
    for excluded in record.excluded:
        if excluded.node not in seen:
            seen.add(excluded.node)
            case = TestCase(excluded.node, classname=CLASS_NAME)
            case.add_skipped_info(one_line(f"excluded: {excluded.reason}", MESSAGE_LIMIT))
            cases.append(case)
    return str(to_xml_report_string([TestSuite("nodes", cases, timestamp=record.session.started)], prettyprint=False))


def _case(node: NodeRecord) -> TestCase:
    case = TestCase(node.name, classname=CLASS_NAME)
    if finish := _FINISH.get(node.verdict):
        finish(case, node)
    return case


def _accused(case: TestCase, node: NodeRecord) -> None:
    where = f" in {plural(len(node.reasons), 'case')}: {' | '.join(node.reasons)}" if node.reasons else ""
    _fail(case, node, f"{node.verdict}{where}", kind=node.verdict)


def _unsure(case: TestCase, node: NodeRecord) -> None:
    first = node.reasons[0] if node.reasons else "no verdict could be reached"
    _fail(case, node, f"{node.verdict}: {first}", kind=node.verdict)


def _unexercised(case: TestCase, node: NodeRecord) -> None:  # noqa: ARG001 - one signature for the table below
    case.add_skipped_info("not exercised")


def _fail(case: TestCase, node: NodeRecord, message: str, kind: str) -> None:
    # Some consumers read the message, some the text: each says it all.
    lines = [message, *node.reasons]
    lines += [f"{name}: best {span.best:g}, worst {span.worst:g} {span.unit}" for name, span in node.metrics.items()]
    lines += [f"{key}: {value}" for key, value in node.identity.items()]
    case.add_failure_info(one_line(message, MESSAGE_LIMIT), "\n".join(lines)[:TEXT_LIMIT], kind)


_FINISH: Mapping[NodeVerdict, Callable[[TestCase, NodeRecord], None]] = {
    "suspect": _accused,
    "intermittent": _accused,
    "lost": _unsure,
    "inconclusive": _unsure,
    "untested": _unexercised,
}
"""What is not in the table passed."""
