"""Operators and the index notation of `%%tensor`, without a notebook."""

from tvmagic.operators.cell import operator, operator_from_cell
from tvmagic.operators.expressions import NotationError
from tvmagic.operators.operator import Operator, Version
from tvmagic.operators.source import Source, excerpt, find_source

__all__ = ["NotationError", "Operator", "Source", "Version", "excerpt", "find_source", "operator", "operator_from_cell"]
