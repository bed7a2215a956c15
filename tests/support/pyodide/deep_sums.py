"""Sums of more and more terms, lowered: prints how each ended."""

import json

import tvmagic
from tvmagic import te


def ended(terms: int) -> str:
    a = te.placeholder((8,), name="a")
    total = lambda i: sum((a[i] for _ in range(terms)), a[i])  # noqa: E731
    try:
        b = te.compute((8,), total, name="b")
        tvmagic.lower(te.create_schedule(b.op), [a, b])
    except tvmagic.TVMagicError as error:
        return error.message
    return "lowered"


print(json.dumps({str(terms): ended(terms) for terms in (8, 40, 300, 1000, 3000)}))
