"""Barriers between calls that get pointers."""

from __future__ import annotations

from typing import Any

import pytest
from pass_checks import module, script

from tvmagic.tir import transform


@pytest.mark.parametrize("first", [0, 1, 2, 3, "address"])
@pytest.mark.parametrize("second", [0, 1, 2, 3, "address"])
def test_barrier_separates_calls_with_pointers(first: Any, second: Any) -> None:
    """If one of two calls writes what the other one touches; who gets an address may do both."""
    pointers = {mask: f"T.tvm_access_ptr(T.type_annotation('int32'), S, 0, 8, {mask})" for mask in (0, 1, 2, 3)} | {
        "address": "T.address_of(s[0])"
    }
    calls = [f"    T.evaluate(T.call_extern('int32', 'f', {pointers[way]}))\n" for way in (first, second)]
    text = (
        "def main(A: T.Buffer((8,), 'int32')):\n    tx = T.launch_thread('threadIdx.x', 8)\n"
        "    S = T.allocate([8], 'int32', 'shared')\n    s = T.Buffer((8,), 'int32', data=S, scope='shared')\n"
        + "".join(calls)
    )
    masks = [3 if way == "address" else way for way in (first, second)]
    meets = (
        all(masks)
        and any(mask & 2 for mask in masks)
        and (bool(masks[0] & 1 and masks[1] & 2) or bool(masks[0] & 2 and masks[1] & 1))
    )
    after = script(transform.ThreadSync("shared")(module(text)))
    assert after.count("tvm_storage_sync") == int(meets)
