"""What a line that is not Python's syntax was meant to be."""

from __future__ import annotations

import keyword
import re
import unicodedata

from tvmagic.notation.expressions import DTYPES
from tvmagic.notation.suggestions import COMMON_TYPES, ranges_above

# Characters that look like one of Python's, or like nothing, as texts are pasted from elsewhere.
_LOOKALIKES = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u00f7": "/", "\u2264": "<=",
    "\u2265": ">=", "\u2260": "!=", "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2026": "...", "\u2211": "+=",
    "\u221e": "inf", "\u00b2": "** 2", "\u00b3": "** 3", "\u221a": "sqrt", "\u3001": ",", "\u3002": ".", "\u3010": "[",
    "\u3011": "]", "\u3014": "[", "\u3015": "]", "\u300a": "<", "\u300b": ">",
}  # fmt: skip


def _strange(line: str) -> str | None:
    """What characters of a line are in Python, which its syntax does not have."""
    found: dict[str, str] = {}
    for char in line.split("#", 1)[0]:
        if not char.isprintable() and char not in "\t\f" or char == "\u200b":
            return f"the line has a character that is not seen (U+{ord(char):04X}): write it again"
        if (plain := _LOOKALIKES.get(char) or _narrow(char)) is not None:
            found[char] = plain
    return f"write {_listed([f'`{plain}` for `{char}`' for char, plain in found.items()])}" if found else None


def _narrow(char: str) -> str | None:
    """The sign or the digit that a wide one, as Chinese and Japanese input methods write, is in Python."""
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain != char and plain.isascii() and not plain.isalpha() else None


def _listed(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


# What other languages have for a word or a sign of Python's, as patterns.
_SIGNS = {r"&&": "and", r"\|\|": "or", r"<>": "!=", r"!(?!=)": "not", r"\+\+": "+ 1", r"--(?=\s*$)": "- 1"}


def _from_a_page(line: str) -> str | None:
    """What a line is that was copied from a text: Markdown, LaTeX, letters for `einsum`, a comment of C."""
    if re.match(r"\s*`", line):
        return "leave out the backquotes, which are of Markdown"
    if re.match(r"\s*(\$|\\\w+)", line):
        return "a sum of products such as this formula's is written `C[i, j] += A[i, k] * B[k, j]`"
    letters = re.fullmatch(r"\s*['\"]?([a-z]+(?:,[a-z]+)*)\s*->\s*([a-z]*)['\"]?\s*", line)
    if letters:
        product = " * ".join(f"{t}[{', '.join(part)}]" for t, part in zip("ABDEFGH", letters[1].split(",")))
        sign = "+=" if set(letters[1]) - {",", *letters[2]} else "="
        return f"einsum's letters are the indices here: `C[{', '.join(letters[2]) or '()'}] {sign} {product}`"
    if re.search(r"/\*|\*/|//\s*[A-Za-z]+\s+[A-Za-z]", line):
        return "a comment begins with `#`"
    return None


def _number_meant(line: str) -> str | None:
    """What a number that Python does not read would be: `2X[i]`, `10L`, `1.5f`, `08`."""
    for found in re.finditer(r"(?<![\w.])(\d+(?:\.\d*)?)([A-Za-z_]\w*)(\[[^\[\]]*\])?", line):
        number, name, place = found[1], found[2], found[3] or ""
        if re.fullmatch(r"\d+([eE]\d+|[jJ])|0[xob]\w+", number + name):
            continue
        suffix = not place and name.lower() in ("l", "u", "ul", "ll", "f", "d", "h")
        return f"write `{number}` for `{found[0]}`" if suffix else f"a product is written `{number} * {name}{place}`"
    zeros = re.search(r"(?<![\w.])0+([1-9]\d*)(?![\w.])", line)
    return f"write `{zeros[1]}` for `{zeros[0]}`" if zeros else None


def _word_meant(line: str) -> str | None:
    """What a line says that has a word of Python as a name, or two values without an operator between them."""
    named = re.match(r"\s*(\w+)\s*(?:\[.*\]\s*[+*]?=(?!=)|:\s*\w+\s*\[)", line)
    if named and keyword.iskeyword(named[1]):
        return f"`{named[1]}` is a word of Python: give the tensor another name, such as `{named[1].upper()}`"
    for left, right in re.findall(r"(\w+\[[^\[\]]*\]|\w+)\s+(?=(\w+\[[^\[\]]*\]|\w+))", line.partition("=")[2]):
        words = {re.match(r"\w+", part)[0] for part in (left, right)}  # type: ignore[index]
        if not any(map(keyword.iskeyword, words)):
            return f"write what is computed of both: `{left} * {right}` is their product"
    return None


def syntax_meant(line: str) -> str | None:
    """What a line that is not Python's syntax would be in the index notation."""
    return _strange(line) or _from_a_page(line) or _statement_meant(line) or _number_meant(line) or _word_meant(line)


def _statement_meant(line: str) -> str | None:
    if re.match(r"\s*[%!]", line):
        return "a magic or a command of the shell belongs in a cell of its own"
    loops = re.findall(r"\bfor\s+(\w+)\s+in\s+(range\([^()]*\))\s*(?::|$)", line)
    if len(loops) > 1:
        return ranges_above(loops)
    if loops and re.search(r":\s*$", line) is None and re.match(r"\s*for\b.*\)\s*$", line):
        return f"write a colon after it: `{line.strip()}:`"
    dots = re.match(r"\s*for\s+(\w+)\s+in\s+(\w+)\s*\.\.+\s*(\w+)", line) or re.match(
        r"\s*(\w+)\s*:\s*(\w+)\s*\.\.+\s*(\w+)", line
    )
    if dots:
        return f"a range is `range({dots[2]}, {dots[3]})`, without its end: `{dots[1]}: range({dots[2]}, {dots[3]})` on a line above"
    reduced = re.match(r"\s*(\w+\s*\[.*?\])\s*(max|min|sum|prod)\s*=", line)
    if reduced:
        return f"a reduction by name is `{reduced[1]} = {reduced[2]}(..., over=k)`"
    if re.match(r"\s*\w+\s*\[.*\]\s*[+*]?=.*\sif\s(?!.*\belse\b)", line):
        return f"say what it is otherwise: `{line.strip()} else 0`"
    if re.match(r"\s*\w+\s*:[^#]*\],?\s*\w+\s*:", line) or re.match(r"\s*\w+(\s*,\s*\w+)+\s*:", line):
        return "write a line for each declaration"
    if re.search(r"\?.*:", line):
        return "a choice is written `A if CONDITION else B`"
    for sign, word in _SIGNS.items():
        if re.search(sign, line):
            return f"`{re.search(sign, line)[0]}` is written `{word}`"  # type: ignore[index]
    empty = re.match(r"\s*(\w+)\s*\[\s*\]\s*[+*]?=(?!=)", line)
    if empty:
        return f"a single value has an empty index: `{empty[1]}[()]`"
    called = re.match(r"\s*(\w+)\(([\w\s,]+)\)\s*[+*]?=(?!=)", line)
    if called:
        return f"an element has its indices in square brackets: `{called[1]}[{called[2].strip()}]`"
    if re.match(r"\s*\w+\s*\[.*?\]\s*:=", line):
        return f"a tensor is defined by `=`: `{line.strip().replace(':=', '=', 1)}`"
    single = re.match(r"\s*(\w+)\s*:\s*(\w+)\s*\[\s*\]\s*$", line)
    if single:
        return f"a single value is declared by its type alone: `{single[1]}: {single[2]}`"
    declared = re.match(r"\s*(\w+)\s+(\w+\s*\[.*\])\s*;?$", line)
    if declared and re.match(r"\w+", declared[2])[0] in DTYPES:  # type: ignore[index]
        return f"declare an input as `{declared[1]}: {declared[2]}`"
    if re.match(r"\s*(Func|Var|RVar|RDom|Expr|ImageParam|Input|Output|Buffer)\b", line):
        return "names of tensors and indices need no declaration but that of an input, `X: float32[8, 8]`: `Y[i, j] = X[i, j] + 1`"
    over = re.search(r"(\w+)\((.*)\sfor\s+(\w+)\s*\)", line)
    if over:
        return f"say how far, `for {over[3]} in range(8)`, or let it follow: `{over[1]}({over[2].strip()}, over={over[3]})`"
    if re.search(r"([-+*/%=,<>&|]|\b(and|or|not|if|else))\s*$", line):
        return "an expression that goes on in the next line is in parentheses"
    as_in_c = re.match(r"\s*(\w+)\s+(\w+)\s*(\[.*\])\s*;?$", line)
    if as_in_c and (as_in_c[1] in DTYPES or as_in_c[1] in COMMON_TYPES):
        return f"declare an input as `{as_in_c[2]}: {COMMON_TYPES.get(as_in_c[1], as_in_c[1])}{as_in_c[3]}`"
    return None
