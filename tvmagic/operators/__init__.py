"""Operators and the index notation of `%%tensor`, without a notebook."""

from tvmagic.notation.expressions import NotationError
from tvmagic.notation.source import Source, excerpt, find_source
from tvmagic.operators.cell import operator, operator_from_cell
from tvmagic.operators.operator import Operator, Version, as_operator

__all__ = [
    "NotationError",
    "Operator",
    "Source",
    "Version",
    "as_operator",
    "excerpt",
    "find_source",
    "operator",
    "operator_from_cell",
]
