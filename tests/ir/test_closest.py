"""Which name is offered for one that does not exist."""

from __future__ import annotations

import random
import string

import pytest

from tvmagic.errors import closest, did_you_mean

KNOWN = ["id", "max", "sum", "mu_sum", "vectorize", "parallel", "Y", "float32", "_hidden"]


@pytest.mark.parametrize(
    "name, meant",
    [
        ("mu_summ", "mu_sum"),
        ("vectorise", "vectorize"),
        ("paralel", "parallel"),
        ("y", "Y"),
        ("YY", "Y"),
        ("flaot32", "float32"),
        ("i", None),
        ("argmax", None),
        ("summary", None),
        ("hidden", None),
        ("tile", None),
    ],
)
def test_only_a_near_name_is_offered(name: str, meant: str | None) -> None:
    assert closest(name, KNOWN) == meant
    assert did_you_mean(name, KNOWN) == (f"did you mean `{meant}`?" if meant else None)


WORDS = (
    "bind compute_at compute_inline parallel reorder reverse_compute_at split storage_align tensorize tile unroll "
    "vectorize cache_read cache_write decompose_reduction transform_layout get_block get_loops softmax cumsum "
    "float32 int8 --check --verify --version --quiet"
).split()


def test_a_slip_in_a_long_word_is_always_told() -> None:
    rng = random.Random(0)
    letters = string.ascii_lowercase
    for _ in range(400):
        word = rng.choice([w for w in WORDS if len(w) > 5])
        i, letter = rng.randrange(1, len(word)), rng.choice(letters)
        slips = [
            word[:i] + word[i + 1 :],
            word[:i] + letter + word[i:],
            word[:i] + letter + word[i + 1 :],
            word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :],
        ]
        slip = rng.choice(slips)
        assert slip in WORDS or closest(slip, WORDS) == word, (slip, word)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("gelu", ["relu", "exp"], None),
        ("elu", ["relu"], None),
        ("data", ["atan"], None),
        ("median", ["mean"], None),
        ("pool", ["bool"], None),
        ("uint61", ["uint64", "uint16"], "uint16"),
        ("ssqrt", ["rsqrt", "sqrt"], "sqrt"),
        ("ttanh", ["atanh", "tanh"], "tanh"),
        ("loops", ["get_loops", "get_block"], "get_loops"),
        ("block", ["get_block", "block_row"], None),
        ("riscv", ["riscv64", "wasm32"], "riscv64"),
    ],
)
def test_the_likeliest_is_offered_and_another_word_is_none(name: str, known: list[str], meant: str | None) -> None:
    assert closest(name, known) == meant
