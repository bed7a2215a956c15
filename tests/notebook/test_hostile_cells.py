"""Cells with characters that are not seen, or that a terminal or a page would take as commands; cells inside of functions and loops."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.notebook.escaping import visible

WORKS = [
    "%%tensor f -q\r\nX: float32[8]\r\nY[i] = X[i] + 1\r\n",
    "\ufeff%%tensor f -q\nX: float32[8]\nY[i] = X[i] + 1",
    "\ufeff# a comment\n%%tensor f -q\nX: float32[8]\nY[i] = X[i] + 1",
    "%%tensor f -q\nX:\tfloat32[8]\nY[i]\t=\tX[i] + 1\t",
    "%%tensor f -q\nX: float32[8]\rY[i] = X[i] + 1",
    "%%tensor f -q\nX: float32[8]\n\x0cY[i] = X[i] + 1",
    "%%tensor f -q\nX: float32[8]\n# \u202e comment \x1b[31m <b>\nY[i] = X[i] + 1",
    "%%tensor f -q\nΔ: float32[8]\nΩ[α] = Δ[α] + 1",
    "%%tensor f -q\n入: float32[8]\n出[数] = 入[数] + 1",
    "%%tensor f -q\nא: float32[8]\nב[ג] = א[ג] + 1",
]


@pytest.mark.parametrize("cell", WORKS)
def test_a_cell_with_strange_characters_works(cell: str, shell: Any) -> None:
    assert shell.run_cell(cell).success
    assert list(shell.user_ns["f"](shell.user_ns["f"].random_inputs()[0] * 0)) == [1] * 8
    assert shell.run_cell("%passes f --text").success


REFUSED = [
    ("%%tensor f\nX: float32[8]\nY[i] = X[i] − 1", "write `-` for `−`"),
    ("%%tensor f\nX: float32[8]\nY[i] = X[i] × 2", "write `*` for `×`"),
    ("%%tensor f\nX: float32[8]\nY[i] = X[i] if X[i] ≤ 1 else 0", "write `<=` for `≤`"),
    ("%%tensor f\nX: float32[8]\nY[i] = X[i] +\xa01", "a character that is not seen (U+00A0): write it again"),
    ("%%tensor f\nX: float32[8]\n\u200bY[i] = X[i]", "a character that is not seen (U+200B): write it again"),
    ("%%tensor f\nX: float32[8]\u2028Y[i] = X[i] + 1", "a character that is not seen (U+2028): write it again"),
    ("%%tensor f\nX: float32[8]\n\x00Y[i] = X[i]", "a character that is not seen (U+0000): write it again"),
    ("%passes '\x1b[31mred'", "there is no operator `\u241b[31mred`"),
    ("%passes \u202eevil", "there is no operator `\ufffdevil`"),
    ("%%tensor '<script>alert(1)</script>'\nX: float32[8]\nY[i] = X[i]", "is not a name that Python can use"),
    ("%%tensor f\nX: float32[8]\nY[i] = X[i] + '\x1b[31m'", "'\u241b[31m'"),
]


@pytest.mark.parametrize(("cell", "words"), REFUSED)
def test_a_strange_character_is_named(cell: str, words: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell(cell).success
    said = capsys.readouterr()
    text = said.out + said.err
    assert words in " ".join(text.split()), text
    assert "\x1b" not in text and "\u202e" not in text, "a terminal would obey it"


def test_each_character_keeps_its_place() -> None:
    text = "a\tb\x1b\x00\u202ec\n"
    assert len(visible(text)) == len(text) and visible(text) == "a\tb\u241b\u2400\ufffdc\n"


def test_names_in_other_letters_are_those_of_the_program(shell: Any) -> None:
    shell.run_cell_magic("tensor", "größe -q", "Δ: float32[8, 6]\nΣ[α] += Δ[α, β]\nΩ[α] = Σ[α] * 2")
    text = shell.user_ns["größe"].to_prim_func().script()
    assert "for α, β in T.grid(8, 6):" in text and "Σ[v_α] = Σ[v_α] + Δ[v_α, v_β]" in text
    assert shell.run_cell("%%schedule größe --check -q\ns[Σ].compute_at(s[Ω], s[Ω].axis[0])").success


def test_cells_run_in_loops_and_functions(shell: Any) -> None:
    loop = """for n in (4, 8):
    get_ipython().run_cell(f"%%tensor op{n} -q\\nX: float32[{n}]\\nY[i] = X[i] * 2")
    get_ipython().run_cell_magic("schedule", f"op{n} -q", "s[Y].vectorize(s[Y].axis[0])")

def define(name):
    get_ipython().run_cell_magic("tensor", f"{name} -q", "X: float32[4]\\nY[i] = X[i] + 1")
    return get_ipython().user_ns[name]

made = define("inner")"""
    assert shell.run_cell(loop).success
    names = shell.user_ns
    assert [names[f"op{n}"].outputs[0].shape[0].value for n in (4, 8)] == [4, 8]
    assert names["made"] is names["inner"] and list(names["op4"].versions) == ["default"]
