"""What is known before anything runs: entries, accelerators, profiles and platforms as YAML, and their models.

Data, not code: a user adds to it by dropping a YAML file into a directory (`--catalog DIR`).
"""

from catalog.accelerator import Accelerator, FigureRow
from catalog.bounds import fabric_bound, scale_up_bound
from catalog.checking import Strict, check, parse_yaml, read_yaml
from catalog.entry import Entry, Option, Threshold
from catalog.errors import CatalogError, nearest
from catalog.explanation import Cause, Explanation
from catalog.healthy import Figure, Group, derive, healthy_busbw, size_factor
from catalog.loading import Catalog, load
from catalog.machine import Machine
from catalog.network import ExpectedNetwork
from catalog.profile import Profile
from catalog.units import Seconds, Size, format_size, parse_duration, parse_size, sweep

__all__ = [
    "Accelerator",
    "Catalog",
    "CatalogError",
    "Cause",
    "Entry",
    "ExpectedNetwork",
    "Explanation",
    "Figure",
    "FigureRow",
    "Group",
    "Machine",
    "Option",
    "Profile",
    "Seconds",
    "Size",
    "Strict",
    "Threshold",
    "check",
    "derive",
    "fabric_bound",
    "format_size",
    "healthy_busbw",
    "load",
    "nearest",
    "parse_duration",
    "parse_size",
    "parse_yaml",
    "read_yaml",
    "scale_up_bound",
    "size_factor",
    "sweep",
]
