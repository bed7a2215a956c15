"""What holds several values, under TVM's names: sequences are tuples and maps are dicts."""

Array = tuple
Map = dict

__all__ = ["Array", "Map"]
