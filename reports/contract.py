"""The published JSON schema of `report.json`, generated from the models so that the two cannot drift apart.

`python -m reports.contract` writes it; a test holds that the committed file is current. What the models allow to be
None is absent in the JSON, so the schema knows no null: such a field is optional, every other one is required.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reports.record import Record

FILE = Path(__file__).parent / "schema" / "report-v1.json"
NULL = {"type": "null"}


def document() -> dict[str, Any]:
    """The schema of what `report.json` holds (JSON Schema 2020-12)."""
    schema = _absent_for_null(Record.model_json_schema(mode="serialization"))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "clusterproof report, version 1"}
    return {**head, **{key: value for key, value in schema.items() if key != "title"}}


def text() -> str:
    """The schema file's content."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def _absent_for_null(node: Any) -> Any:
    if isinstance(node, list):
        return [_absent_for_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _absent_for_null(value) for key, value in node.items() if not (key == "default" and value is None)}
    if isinstance(node.get("properties"), dict):
        kept["required"] = [name for name, field in node["properties"].items() if NULL not in field.get("anyOf", [])]
    options = [option for option in kept.get("anyOf", []) if option != NULL]
    if not options:
        return kept
    rest = {key: value for key, value in kept.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {"anyOf": options, **rest}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
