"""Tools around compiled modules, at the places where TVM has them."""
