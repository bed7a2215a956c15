"""Tests of passes by a program before, a pass, and the program after."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from tvmagic.compat.testing.fixtures import is_fixture
from tvmagic.errors import WrongTypeError
from tvmagic.ir import IRModule, PrimFunc, assert_structural_equal
from tvmagic.passes import Pass
from tvmagic.script.parser.entry import read_function
from tvmagic.script.parser.live_source import LiveSource

__all__ = ["CompareBeforeAfter"]


class CompareBeforeAfter:
    """A test of a pass. A subclass gives three things:

    before: the program: a function in the words of `T.prim_func` without that decorator, a PrimFunc or IRModule, a class
        of such functions for a module, a method that returns a program, or a fixture.
    transform: a pass, or a method or fixture that gives one.
    expected: the program after it, in the same ways; or the class of the error that the pass is to raise.

    `check_well_formed`: whether programs are refused that are not well-formed.
    """

    check_well_formed: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, other in (("before", "Before"), ("expected", "Expected")):
            given = [n for n in (name, other) if n in vars(cls)]
            if len(given) > 1:
                raise WrongTypeError(
                    f"the test `{cls.__name__}` gives both `{name}` and `{other}`", code="testing.both_forms_given"
                )
            if given:
                setattr(cls, name, _program_fixture(vars(cls)[given[0]]))
        if "transform" in vars(cls):
            cls.transform = _transform_fixture(cls, vars(cls)["transform"])

    def test_compare(self, before: Any, expected: Any, transform: Callable[[Any], Any]) -> None:
        """The pass gives the expected program, or raises the expected error."""
        if isinstance(expected, type):
            _check_raises(before, expected, transform)
            return
        if not isinstance(expected, (PrimFunc, IRModule)):
            raise WrongTypeError(
                f"`expected` is a program or the class of an error, not `{expected!r}`", code="testing.wrong_expected"
            )
        after = transform(before)
        try:
            assert_structural_equal(_unnamed(after), _unnamed(expected))
        except ValueError as error:
            texts = {"before": before, "actual": after, "expected": expected}
            shown = "\n\n".join(f"{name}:\n{program.script(name=name)}" for name, program in texts.items())
            raise ValueError(f"the program after the pass is not the expected one: {error}\n\n{shown}") from error


def _check_raises(before: Any, expected: type[BaseException], transform: Callable[[Any], Any]) -> None:
    import pytest

    with pytest.raises(expected):
        after = transform(before)
        pytest.fail(
            f"the pass raised no {expected.__name__}\n\nbefore:\n{before.script(name='before')}\n\n"
            f"after:\n{after.script(name='after')}"
        )


def _unnamed(program: Any) -> Any:
    """A function under the one name `main`, so that names are not compared."""
    return program.with_attr("global_symbol", "main") if isinstance(program, PrimFunc) else program


def _takes_self(function: Any) -> bool:
    return inspect.isfunction(function) and next(iter(inspect.signature(function).parameters), "") == "self"


def _program_fixture(given: Any) -> Any:
    """The fixture that gives a program, or the class of an error."""
    import pytest

    if is_fixture(given):
        return given
    if _takes_self(given):  # a method; its other parameters are fixtures
        return pytest.fixture(given)
    if isinstance(given, type) and issubclass(given, BaseException):
        return pytest.fixture(lambda self: given)
    return pytest.fixture(lambda self: _program(given, self.check_well_formed))


def _program(given: Any, check: bool) -> Any:
    if isinstance(given, (PrimFunc, IRModule)):
        return given
    if isinstance(given, type):
        found = {name: value for name, value in vars(given).items() if not name.startswith("_")}
        functions = {name: _program(value, check).with_attr("global_symbol", name) for name, value in found.items()}
        return IRModule(functions)
    if inspect.isfunction(given):
        return read_function(LiveSource.of(given), False, check)
    raise WrongTypeError(f"a `{type(given).__name__}` is not a program", code="testing.not_a_program")


def _transform_fixture(cls: type[Any], given: Any) -> Any:
    """The fixture that gives the pass as a function on functions and modules."""
    import pytest

    if is_fixture(given):
        if "_transform" not in vars(cls):
            cls._transform = given
        return pytest.fixture(lambda self, _transform: _applied(_transform))
    if isinstance(given, Pass):
        return pytest.fixture(lambda self: _applied(given))
    if _takes_self(given):

        def transform(self: Any, **fixtures: Any) -> Any:
            return _applied(given(self, **fixtures))

        transform.__signature__ = inspect.signature(given)  # type: ignore[attr-defined]
        return pytest.fixture(transform)
    raise WrongTypeError("`transform` is a pass, or a method or fixture that gives one", code="testing.wrong_transform")


def _applied(change: Callable[[IRModule], IRModule]) -> Callable[[Any], Any]:
    """A pass on modules as one on functions too: those are put into a module of their own."""

    def apply(program: Any) -> Any:
        if isinstance(program, PrimFunc):
            return change(IRModule({"main": program}))["main"]
        if isinstance(program, IRModule):
            return change(program)
        raise WrongTypeError(
            f"a pass takes a function or a module, not a `{type(program).__name__}`", code="testing.not_a_program"
        )

    return apply
