"""What holds several values, under TVM's names: sequences are tuples and maps are dicts."""

from tvmagic.ir.container import Array, Map

__all__ = ["Array", "Map"]
