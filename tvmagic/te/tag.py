"""Tags of operations, set by a scope."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from tvmagic.errors import TVMagicError, WrongValueError

_tag: contextvars.ContextVar[str] = contextvars.ContextVar("te_tag", default="")


@contextlib.contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Give `tag` to every operation that is made inside the `with`. Scopes are not nested."""
    if _tag.get():
        raise WrongValueError(
            "tag_scope is not nested: Nested tag_scope is not allowed for now",
            hint=f"the scope of the tag `{_tag.get()}` is still open",
            code="te.tag_scope.nested",
        )
    token = _tag.set(tag)
    try:
        yield
    finally:
        _tag.reset(token)


def current_tag(tag: str) -> str:
    """The tag of a new operation for which the caller asks `tag`."""
    scope = _tag.get()
    if scope and tag:
        raise TVMagicError(
            "a tag is given inside tag_scope", hint="leave one of both out", code="te.tag_scope.tag_given"
        )
    return scope or tag
