"""TVM's place for equality, hash and JSON."""

from tvmagic.ir.equal import assert_structural_equal, get_first_structural_mismatch, structural_equal
from tvmagic.ir.hash import structural_hash
from tvmagic.ir.json import load_json, make_node, save_json
from tvmagic.ir.node import Node, Span

__all__ = [
    "Node",
    "Span",
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "load_json",
    "make_node",
    "save_json",
    "structural_equal",
    "structural_hash",
]
