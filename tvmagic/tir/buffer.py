"""Buffers, at the place where TVM has them."""

from tvmagic.ir import Buffer, decl_buffer

__all__ = ["Buffer", "decl_buffer"]
