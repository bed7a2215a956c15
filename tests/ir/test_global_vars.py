"""Functions of a module that call each other: who calls whom, and other names for them."""

from __future__ import annotations

import pytest

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script import ir as I
from tvmagic.script import tir as T


@I.ir_module
class Calls:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main"})
        A[0] = Calls.twice(A[1]) + Calls.twice(A[2])
        T.evaluate(Calls.leaf())

    @T.prim_func(private=True)
    def twice(n: T.int32) -> T.int32:
        if n > 8:
            return Calls.twice(n - 8)
        return n * 2

    @T.prim_func
    def leaf() -> T.int32:
        return 3


def named(calls: dict[ir.GlobalVar, list[ir.GlobalVar]]) -> dict[str, list[str]]:
    return {var.name_hint: [other.name_hint for other in others] for var, others in calls.items()}


def test_who_calls_whom() -> None:
    from tvmagic.ir.analysis import collect_call_map

    assert named(collect_call_map(Calls)) == {"main": ["twice", "leaf"], "twice": ["twice"], "leaf": []}


def test_other_names_in_calls_and_symbols() -> None:
    renamed = Calls.replace_global_vars({"twice": "double", Calls.get_global_var("leaf"): ir.GlobalVar("three")})
    assert sorted(var.name_hint for var in renamed.functions) == ["double", "main", "three"]
    text = renamed.script()
    assert "A[0] = Module.double(A[1]) + Module.double(A[2])" in text and "    Module.three()" in text
    assert "Module.double(n - 8)" in text
    assert "twice" not in text and "leaf" not in text
    assert renamed["three"].attrs["global_symbol"] == "three" and "global_symbol" not in renamed["double"].attrs
    assert renamed["main"].attrs["global_symbol"] == "main"
    back = renamed.replace_global_vars({"double": "twice", "three": "leaf"})
    ir.assert_structural_equal(back, Calls)
    assert "Calls" not in text and Calls.replace_global_vars({}) is Calls


def test_two_functions_swap_their_names() -> None:
    swapped = Calls.replace_global_vars({"twice": "leaf", "leaf": "twice"})
    assert "Module.leaf(A[1]) + Module.leaf(A[2])" in swapped.script() and not swapped["twice"].params


def test_names_that_do_not_fit() -> None:
    with pytest.raises(TVMagicError, match="`nothing`"):
        Calls.replace_global_vars({"nothing": "main"})
    with pytest.raises(TVMagicError, match="`main`"):
        Calls.replace_global_vars({"leaf": "main"})
