"""Classes whose objects a notebook shows in a view.

The module that defines a class names its view by `@viewed`, and `tvmagic.notebook.display` has the views. So a view
needs no class before there is an object of it, and no class needs the notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_C = TypeVar("_C", bound=type)
_Watcher = Callable[[type, str], object]

_views: dict[type, str] = {}
_watchers: list[_Watcher] = []


def viewed(view: str) -> Callable[[_C], _C]:
    """Class decorator: a notebook shows objects of the class, and of its subclasses, in the view called `view`."""

    def register(cls: _C) -> _C:
        _views[cls] = view
        for watcher in _watchers:
            watcher(cls, view)
        return cls

    return register


def view_of(value: object) -> str | None:
    """Return the name of the view in which a notebook shows `value`, or None if it has none."""
    return next((_views[cls] for cls in type(value).__mro__ if cls in _views), None)


def watch_views(watcher: _Watcher) -> Callable[[], None]:
    """Call `watcher(cls, view)` for each class with a view, and for those that are loaded later.

    Returns a function that ends this.
    """
    _watchers.append(watcher)
    for cls, view in list(_views.items()):
        watcher(cls, view)
    return lambda: _watchers.remove(watcher)
