"""Which data classes of a package are values, which nothing changes once they are made."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["data_classes"]


def data_classes(package: str) -> dict[str, bool]:
    """The data classes that a package declares, by name, each with whether it is frozen."""
    found: dict[str, bool] = {}
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name and "__dataclass_params__" in vars(value):
                found[value.__name__] = value.__dataclass_params__.frozen
    return found
