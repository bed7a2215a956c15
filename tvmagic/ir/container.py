"""What holds several values, at the place where TVM has it: sequences are tuples and maps are dicts."""

Array = tuple
Map = dict

__all__ = ["Array", "Map"]
