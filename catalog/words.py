"""The closed lists of words that the whole house shares: layers, scales, traffic, collectives, kinds of figures."""

from __future__ import annotations

from typing import Literal, get_args

Layer = Literal["node", "scale-up", "fabric"]
Scale = Literal["full-scale", "intra-rack", "intra-node", "diagnose", "pairs"]
Traffic = Literal["ring", "all-pairs", "none"]
Framework = Literal["torch", "mpi", "exec"]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"]
Kind = Literal["measured", "published", "derived", "provisional"]
"""measured: published with its conditions; published: a floor or a statement without them; derived: by a formula from
one of these; provisional: nobody published it, so it is derived from the physical bound."""
Algorithm = Literal["any", "ring", "tree", "nvls", "sharp"]

LAYERS: tuple[str, ...] = get_args(Layer)
SCALES: tuple[str, ...] = get_args(Scale)
COLLECTIVES: tuple[str, ...] = get_args(Collective)
