"""`python -m k8s NAMESPACE/NAME DIRECTORY` unpacks a report that a runner left in a ConfigMap."""

from __future__ import annotations

import sys
from pathlib import Path

from cluster import ClusterError
from k8s.publish import fetch


def main(arguments: list[str]) -> int:
    """Print the files written; 1 with a sentence where that was not possible."""
    if len(arguments) != 2 or "/" not in arguments[0]:
        print("usage: python -m k8s NAMESPACE/NAME DIRECTORY", file=sys.stderr)
        return 2
    try:
        for path in fetch(arguments[0], Path(arguments[1])):
            print(path)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
