"""Analyses of TVM that no pass here asks, at the names of `tir.analysis`."""

from tvmagic.compat.analysis.anchor import find_anchor_block
from tvmagic.compat.analysis.flops import estimate_tir_flops
from tvmagic.compat.analysis.oob_checker import OOBChecker
from tvmagic.compat.analysis.regions import get_block_access_region, get_block_read_write_region

__all__ = [
    "OOBChecker",
    "estimate_tir_flops",
    "find_anchor_block",
    "get_block_access_region",
    "get_block_read_write_region",
]
