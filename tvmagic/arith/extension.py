"""How hard the analyzer tries: strengths of a proof, and parts of the simplifier that are off at first."""

from __future__ import annotations

import enum


class ProofStrength(enum.IntEnum):
    """How hard `can_prove` tries."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(enum.Flag):
    """Parts of the rewrite simplifier that are off unless asked for."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1 << 0
    ConvertBooleanToAndOfOrs = 1 << 1
    ApplyConstraintsToBooleanBranches = 1 << 2
    ComparisonOfProductAndSum = 1 << 3
