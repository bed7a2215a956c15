"""Walks over statements, under TVM's names, and `renew_defs`."""

from __future__ import annotations

from tvmagic.ir.functor import ir_transform, post_order_visit, pre_order_visit, substitute
from tvmagic.tir.renew import renew_defs

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]
