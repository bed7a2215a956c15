"""Buffers, at the place where TVM has them."""

from tvmagic.ir import Buffer, DataProducer, decl_buffer

__all__ = ["Buffer", "DataProducer", "decl_buffer"]
