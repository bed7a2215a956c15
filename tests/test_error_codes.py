"""Every error has a code. The codes and the form of messages are read from the source; nothing is run.

`docs/errors.py` collects the calls that create errors.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loaded_file import load

from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.notebook.errors import error_lines
from tvmagic.script import from_source

ROOT = Path(__file__).resolve().parents[1]

# Units that several packages share.
SHARED = {"compat", "error_bound", "module", "pass"}

# Messages without the form of an error: "cannot ACTION `OBJECT`: REASON", "ARGUMENT must be X, got Y" or "expected X,
# got Y". Whoever rewrites some of these lowers the number. Nobody raises it.
WITHOUT_FORM = 1593


ERRORS = load(ROOT / "docs" / "errors.py")


def test_every_error_has_a_code() -> None:
    missing = [str(site) for site in ERRORS.sites() if not site.codes]
    assert not missing, "no `code=` at\n" + "\n".join(missing)


def test_packages_do_not_share_codes() -> None:
    """A code has one meaning: two packages use one only in a unit that both have."""
    packages: dict[str, set[str]] = {}
    for site in ERRORS.sites():
        for code in site.codes:
            packages.setdefault(code, set()).add(site.package)
    shared = {code: those for code, those in packages.items() if len(those) > 1 and code.split(".")[0] not in SHARED}
    assert not shared


def test_retired_codes_are_not_reused() -> None:
    used = {code for site in ERRORS.sites() for code in site.codes}
    assert not used.intersection(ERRORS.RETIRED)


def test_page_lists_all_codes() -> None:
    assert ERRORS.PAGE.read_text(encoding="utf-8") == ERRORS.page(), "run `python docs/errors.py`"


def has_form(message: str) -> bool:
    """Return whether a message has one of the forms of errors and ends without a full stop."""
    start = message.startswith(("cannot ", "expected ")) or " must " in message or ", expected " in message
    return start and not re.search(r"[^.]\.$", message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("cannot split `i`: its extent is 0", True),
        ("split factors must be positive, got -1", True),
        ("split factors are positive, not -1", False),
        ("cannot split `i`: its extent is 0.", False),
    ],
)
def test_form_is_recognized(message: str, expected: bool) -> None:
    assert has_form(message) == expected


def test_messages_without_form_only_decrease() -> None:
    wrong = [str(site) for site in ERRORS.sites() if site.message is not None and not has_form(site.message)]
    assert len(wrong) <= WITHOUT_FORM, "\n".join(wrong)


def test_code_is_not_in_the_text() -> None:
    error = TVMagicError("cannot split `i`: its extent is 0", code="split.empty")
    assert error.code == "split.empty"
    assert "split.empty" not in str(error)


def test_notebooks_show_the_code() -> None:
    error = TVMagicError("cannot split `i`: its extent is 0", code="split.empty")
    assert error_lines(error, colour=False)[-1] == "code: split.empty"
    assert error_lines(TVMagicError("cannot split"), colour=False) == ["TVMagicError: cannot split"]


def test_errors_of_calls_have_their_code() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    sch = te.create_schedule(B.op)
    with pytest.raises(TVMagicError) as caught:
        sch[B].split(B.op.axis[0], factor=0)
    assert caught.value.code == "te.split.factor_not_positive"
    with pytest.raises(TVMagicError) as caught:
        tir.Schedule(te.create_prim_func([A, B])).get_block("C")
    assert caught.value.code == "get_block.unknown_name"


def test_errors_of_a_text_have_their_code() -> None:
    with pytest.raises(TVMagicError) as caught:
        from_source("from tvm.script import tir as T\n@T.prim_func\ndef f():\n    T.evaluate(x)\n")
    assert caught.value.code == "script.undefined_name"
    with pytest.raises(TVMagicError) as caught:
        from_source("def f(:")
    assert caught.value.code == "script.not_python"
