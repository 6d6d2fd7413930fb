"""Programs that run on the nodes, each a single file that runs alone in any image with Python and PyTorch.

Nothing of the suite is imported here and nothing here is imported by it: a program is copied or mounted as a file,
started once a rank, and speaks by what it prints (nccl-tests tables, one `CLUSTERPROOF-RESULT` line) and by its exit
code.
"""

from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent
"""Where the programs lie, to be started or copied from."""

__all__ = ["PROGRAMS"]
