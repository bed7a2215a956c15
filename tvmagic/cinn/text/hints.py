"""What to write in CINN's text in place of C, C++, TVMScript or another generation's spelling."""

from __future__ import annotations

import re

_LOOP = "a loop is `KIND for (VAR, MIN, EXTENT)`, its kind one of serial, parallel, unroll, vectorize[4], thread_bind[threadIdx.x], default"
_CAST = "a cast is written as a call of the type: `float32(x)`"
_SUFFIX = (
    "integers are written `5`, `5ll` (int64), `5ull` (uint64), `(uint8_t)5`; floats `5.0f`, `5.0`, `(float16)5.0f`"
)

# Each row: what the text says before the place of the error, at it, and the hint.
_FOREIGN = [
    (re.compile(before + r"\Z"), re.compile(at), hint)
    for before, at, hint in (
        (r"", r"\?", "a choice is written `select(condition, a, b)`"),
        (r"", r"&&", "CINN's text has `and`"),
        (r"", r"\|\|", "CINN's text has `or`"),
        (r"", r"&", "write `bitwise_and(a, b)`"),
        (r"", r"\|", "write `bitwise_or(a, b)`"),
        (r"", r"\^", "write `bitwise_xor(a, b)`"),
        (r"", r"~", "write `bitwise_not(a)`"),
        (r">\s*", r">", "write `right_shift(a, b)`"),
        (r"<\s*", r"<", "write `left_shift(a, b)`"),
        (r"", r";", "a statement ends with its line, without `;`"),
        (r"", r"[-+*/%]=", "write the whole sum: `B[i0] = (B[i0] + x)`"),
        (r"for\s*\(\s*\w+\s+", r"\w+\s*=", _LOOP),
        (r"for\s*\(\s*\w+\s*", r"=", _LOOP),
        (r"for\s*\([^()]*", r":", _LOOP),
        (r"", r"[\w.:\[\]]+\s+for\s*\(|for\s+\w+\s+in\b", _LOOP),
        (r"\(\s*(?:float|double|half|int|unsigned|long|bool|char|\w+_t|b?float\d+|u?int\d+)\s*\)\s*", r"", _CAST),
        (r"", r"(?:float|double|half|int|static_cast|cast)\s*[(<]", _CAST),
        (r"", r"(?:max|min|fmax|fmin|fmaxf|fminf)\s*\(", "CINN's text has `cinn_max(a, b)` and `cinn_min(a, b)`"),
        (r"\b0", r"[xX][0-9a-fA-F]+", "numbers are decimal"),
        (r"\d", r"[uUlLfF]+\b", _SUFFIX),
        (r"", r"axis\.(?!bind)\w+|T\.\w+", "a block binds its variables by one line `i0, i1 = axis.bind(i, j)`"),
    )
]  # fmt: skip


def foreign_hint(text: str, offset: int) -> str | None:
    """What would work in the place of what cannot be read at `offset`, or None if it is not another language's spelling."""
    line = text[max(text.rfind("\n", 0, offset), 0) : offset]
    return next((hint for before, at, hint in _FOREIGN if before.search(line) and at.match(text, offset)), None)
