"""The primitives of a TensorIR schedule, one file a family; each file of this folder is loaded."""

import importlib
import pkgutil

__all__ = [module.name for module in pkgutil.iter_modules(__path__)]  # pyright: ignore[reportUnsupportedDunderAll]
for _name in __all__:
    importlib.import_module(f"{__name__}.{_name}")
