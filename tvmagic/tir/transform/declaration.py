"""How a pass is declared: one function under `@tir_pass`; its name, help, options and place in `transform` follow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tvmagic.ir import PrimFunc
from tvmagic.passes import Pass, PassContext, prim_func_pass

# What makes each pass, by the name that users call (`VectorizeLoop`).
PASSES: dict[str, Callable[..., Pass]] = {}

# Parameters of a pass's function that are not arguments of the pass.
_GIVEN = ("context", "options")


def tir_pass(
    name: str, options: Mapping[str, Any] | None = None, key: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Pass]]:
    """Declare the pass `name` (`tir.VectorizeLoop`) by a function from function to function.

    The decorated function takes the `func: PrimFunc`, or with the name `mod` the whole `IRModule`, and returns the
    new one; the same object says that nothing changed. Its other parameters are the arguments with which the
    pass is made (`VectorizeLoop(enable_vectorize=False)`) and are shown in the record, except for two:

    - `context` is the `PassContext`;
    - `options` holds the options of the pass by name, with the defaults given here; users set them by
      `PassContext(config={key: {...}})`, the key being the pass's name by default. Raises `TVMagicError` for an
      option that is not one of them.

    A `Mutator` class in place of the function rewrites the body; its constructor takes the arguments.
    What is declared is found as `tvmagic.tir.transform.<name of the function or class>`.
    """
    key = key or name
    if options is not None:
        PassContext.register_config_option(key, f"options of {key.removeprefix('tir.')} by name", options)

    def declare(function: Callable[..., Any]) -> Callable[..., Pass]:
        if isinstance(function, type):
            function = _by_class(function)
        first, *others = inspect.signature(function).parameters.values()
        wanted = [p.name for p in others if p.name in _GIVEN]
        signature = inspect.Signature([p for p in others if p.name not in _GIVEN], return_annotation=Pass)

        @functools.wraps(function)
        def make(*args: Any, **kwargs: Any) -> Pass:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()

            def run(subject: Any, context: PassContext) -> Any:
                given: dict[str, Any] = {"context": context} if "context" in wanted else {}
                if "options" in wanted:
                    given["options"] = _options_in(context, key, options or {})
                return function(subject, **bound.arguments, **given)

            shown = {k: v if isinstance(v, (int, str)) else str(v) for k, v in bound.arguments.items() if _is_shown(v)}
            if first.name == "mod":
                return Pass(name, run, options=shown, doc=function.__doc__)
            made = prim_func_pass(lambda func, mod, context: run(func, context), 0, name, options=shown)
            made.__doc__ = function.__doc__
            return made

        make.__signature__ = signature  # type: ignore[attr-defined]
        return declared(make)

    return declare


def _by_class(rewriter: type[Any]) -> Callable[..., PrimFunc]:
    """A function that rewrites the body by a fresh object of a class: it may keep what it meets."""

    def rewrite(func: PrimFunc, *args: Any, **kwargs: Any) -> PrimFunc:
        return func.with_body(rewriter(*args, **kwargs).visit(func.body))

    own = inspect.signature(rewriter.__init__).parameters.values() if "__init__" in vars(rewriter) else ()
    subject = inspect.Parameter("func", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rewrite.__signature__ = inspect.Signature([subject, *list(own)[1:]])  # type: ignore[attr-defined]
    rewrite.__name__, rewrite.__doc__ = rewriter.__name__, rewriter.__doc__
    return rewrite


def declared(make: Callable[..., Pass]) -> Callable[..., Pass]:
    """Let a function that makes a pass, such as a sequence of others, be found in `tvmagic.tir.transform`."""
    PASSES[make.__name__] = make
    return make


def _is_shown(value: Any) -> bool:
    return value is not None and not callable(value)


def _options_in(context: PassContext, key: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one pass: those given under `key` in the context, else `defaults`."""
    given: Mapping[str, Any] = context.config.get(key) or {}
    return {name: getattr(given.get(name, value), "value", given.get(name, value)) for name, value in defaults.items()}
