r"""Formulas of Markdown as MathML, which browsers show without a script.

What is read is the part of LaTeX in which formulas of notebooks are mostly written: scripts, fractions, roots, Greek letters,
operators, accents, brackets of the size of what is in them, matrices, cases and aligned lines. Source: MathML Core (W3C) for what
is written, the names of LaTeX and amsmath for what is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

__all__ = ["mathml"]

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_DEEPEST = 40  # groups in groups


def _table(text: str) -> dict[str, str]:
    """`name sign name sign ...` as a table of commands."""
    words = text.split()
    return {f"\\{name}": sign for name, sign in zip(words[::2], words[1::2], strict=True)}


_LETTERS = _table(
    "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν xi ξ"
    " pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω"
    " Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω"
    " infty ∞ partial ∂ nabla ∇ ell ℓ hbar ℏ emptyset ∅ varnothing ∅ forall ∀ exists ∃ Re ℜ Im ℑ aleph ℵ top ⊤ bot ⊥ degree °"
    " dots … ldots … cdots ⋯ vdots ⋮ ddots ⋱ % % $ $ # # & & _ _"
)
_OPERATORS = _table(
    "cdot ⋅ times × div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ wedge ∧ vee ∨ land ∧ lor ∨"
    " neg ¬ lnot ¬ cap ∩ cup ∪ setminus ∖ le ≤ leq ≤ ge ≥ geq ≥ lt < gt > ll ≪ gg ≫ ne ≠ neq ≠ equiv ≡ approx ≈ sim ∼ simeq ≃"
    " cong ≅ propto ∝ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ mid ∣ parallel ∥ perp ⟂ to → rightarrow → gets ←"
    " leftarrow ← Rightarrow ⇒ Leftarrow ⇐ leftrightarrow ↔ Leftrightarrow ⇔ iff ⟺ implies ⟹ mapsto ↦ longrightarrow ⟶ uparrow ↑"
    " downarrow ↓ triangleq ≜ colon : lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩ lbrace { rbrace } { { } } lvert | rvert |"
    " vert | Vert ‖ lVert ‖ rVert ‖ | ‖ backslash \\ int ∫ iint ∬ oint ∮"
)
# Whose limits are below and above them in a formula of its own.
_BIG = _table(
    "sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀"
    " max max min min lim lim sup sup inf inf argmax argmax argmin argmin"
)
_WORDS = {f"\\{name}": name for name in (
    "exp log ln lg sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan arg det dim gcd ker Pr"
).split()}  # fmt: skip
_ACCENTS = _table("hat ^ widehat ^ bar ¯ overline ¯ tilde ~ widetilde ~ vec → dot ˙ ddot ¨ overbrace ⏞")
_BELOW = _table("underline _ underbrace ⏟")
_SPACES = {
    "\\,": 0.17,
    "\\:": 0.22,
    "\\>": 0.22,
    "\\;": 0.28,
    "\\!": -0.17,
    "\\ ": 0.33,
    "~": 0.33,
    "\\quad": 1,
    "\\qquad": 2,
}
_TEXTS = (
    "\\text",
    "\\textrm",
    "\\textit",
    "\\textbf",
    "\\texttt",
    "\\mbox",
    "\\mathrm",
    "\\operatorname",
    "\\mathsf",
    "\\mathtt",
)
_NOTHING = ("\\displaystyle", "\\textstyle", "\\limits", "\\nolimits", "\\nonumber", "\\notag", "\\big", "\\Big", "\\bigg", "\\Bigg",
            "\\bigl", "\\bigr", "\\Bigl", "\\Bigr", "\\middle")  # fmt: skip
# The sign of `A` in a font, for what has no attribute in MathML Core; the letters with a sign of their own before.
_FONTS = {
    "\\mathbf": (0x1D400, 0x1D41A, {}),
    "\\boldsymbol": (0x1D468, 0x1D482, {}),
    "\\mathcal": (0x1D49C, 0, dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))),
    "\\mathbb": (0x1D538, 0x1D552, dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))),
}
_AROUND = {"matrix": ("", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]"), "Bmatrix": ("{", "}"), "vmatrix": ("|", "|"),
           "Vmatrix": ("‖", "‖"), "cases": ("{", ""), "array": ("", "")}  # fmt: skip
_LINES = ("align", "aligned", "equation", "gather", "gathered", "split", "eqnarray")
# Columns that meet. Chromium aligns what is in a cell by its own name of the value.
_ALIGNED = (
    "text-align: right; text-align: -webkit-right; padding-inline: 0",
    "text-align: left; text-align: -webkit-left",
)


class _UnknownError(Exception):
    """What this reader does not know; the formula is then shown as it is written."""


def mathml(text: str, display: bool = False) -> Element | None:
    r"""A formula as MathML; None if it has commands that are not known here or does not end.

    Parameters
    ----------
    text: the formula without its dollars, or an environment with its `\begin` and `\end`.
    display: whether it is a formula of its own, rather than one in a sentence.
    """
    try:
        content = _Reader(text, display).whole()
    except _UnknownError:
        return None
    math = Element("math", {"alttext": text.strip()} | ({"display": "block"} if display else {}))
    math.append(content)
    return math


def _leaf(tag: str, text: str, **attributes: str) -> Element:
    element = Element(tag, attributes)
    element.text = text
    return element


def _of(tag: str, *parts: Element, **attributes: str) -> Element:
    element = Element(tag, attributes)
    element.extend(parts)
    return element


def _row(parts: list[Element]) -> Element:
    return parts[0] if len(parts) == 1 else _of("mrow", *parts)


class _Reader:
    """A recursive descent over the signs of a formula."""

    def __init__(self, text: str, display: bool) -> None:
        self.tokens = [found.group() for found in _TOKEN.finditer(text)]
        self.at = 0
        self.depth = 0
        self.display = display

    def whole(self) -> Element:
        """All of it."""
        rows = self.table(("",))
        if len(rows) == 1 and len(rows[0]) == 1:
            return rows[0][0]
        return self.lines(rows)

    def peek(self) -> str:
        """The next sign, white space left out; the empty text at the end."""
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        """The next sign, which has to be the expected one if there is one."""
        token = self.peek()
        if not token or (expected and token != expected):
            raise _UnknownError
        self.at += 1
        return token

    # ------------------------------------------------------------------ rows

    def row(self, ends: tuple[str, ...]) -> Element:
        """What comes before one of the signs, which is not taken."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _UnknownError
        parts: list[Element] = []
        while self.peek() not in ends:
            if not self.peek():
                raise _UnknownError
            parts.extend(self.scripted(parts))
        self.depth -= 1
        return _row(parts)

    def scripted(self, before: list[Element]) -> Iterator[Element]:
        r"""A part with what is below and above it; nothing for a command like `\label`."""
        wide = self.peek() in _BIG and self.display
        if self.peek() in ("^", "_", "'"):
            base = Element("mrow")
        else:
            found = self.part()
            if found is None:
                return
            base = found
        while self.peek() in ("\\limits", "\\nolimits"):
            wide = self.take() == "\\limits"
        wide = wide or base.tag in ("munder", "mover") and base[1].text in ("⏞", "⏟")
        below: Element | None = None
        above: list[Element] = []
        while self.peek() in ("^", "_", "'"):
            sign = self.take()
            if sign == "'":
                above.append(_leaf("mo", "′"))
            elif sign == "^":
                above.append(self.argument())
            elif below is None:
                below = self.argument()
            else:
                raise _UnknownError
        tags = ("munder", "mover", "munderover") if wide else ("msub", "msup", "msubsup")
        if below is not None and above:
            yield _of(tags[2], base, below, _row(above))
        elif below is not None:
            yield _of(tags[0], base, below)
        else:
            yield _of(tags[1], base, _row(above)) if above else base

    def argument(self) -> Element:
        """A group in braces, or one part; of a number in several digits the first alone, as in LaTeX."""
        token = self.peek()
        if token[:1].isdigit() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return _leaf("mn", token[0])
        part = self.part()
        if part is None:
            raise _UnknownError
        return part

    # ------------------------------------------------------------------ parts

    def part(self) -> Element | None:
        """One sign or one command with its arguments; None if nothing is shown for it."""
        token = self.take()
        if token.startswith("\\") or token == "~":
            return self.command(token)
        if token == "{":
            inner = self.row(("}",))
            self.take("}")
            return inner if inner.tag == "mrow" else _of("mrow", inner)
        if token[0].isdigit():
            return _leaf("mn", token)
        if token.isalpha():
            return _leaf("mi", token)
        if token in "}&%$#":
            raise _UnknownError
        stretched = {"stretchy": "false"} if token in "()[]|/" else {}
        return _leaf("mo", {"-": "−", "*": "∗"}.get(token, token), **stretched)

    def command(self, token: str) -> Element | None:
        """A command: a sign, or one of `_COMMANDS`."""
        for tag, table in (("mi", _LETTERS), ("mo", _OPERATORS), ("mi", _WORDS)):
            if token in table:
                return _leaf(tag, table[token], **({"stretchy": "false"} if tag == "mo" else {}))
        if token in _BIG:
            return _leaf("mo", _BIG[token], **({} if len(_BIG[token]) == 1 else {"lspace": "0", "rspace": "0.17em"}))
        if token in _SPACES:
            return Element("mspace", {"width": f"{_SPACES[token]}em"})
        if token in _ACCENTS:
            return _of("mover", self.argument(), _leaf("mo", _ACCENTS[token]), accent="true")
        if token in _BELOW:
            return _of("munder", self.argument(), _leaf("mo", _BELOW[token]))
        if token.rstrip("*") in _TEXTS:
            if token.startswith(("\\math", "\\op")):
                return _leaf("mi", self.words(), mathvariant="normal")
            return _leaf("mtext", self.words())
        if token in _FONTS:
            return _leaf("mi", "".join(_in_font(token, sign) for sign in self.words()))
        if token in _NOTHING:
            return None
        return _COMMANDS[token](self) if token in _COMMANDS else self.unknown()

    def unknown(self) -> Element:
        """Give up."""
        raise _UnknownError

    def words(self) -> str:
        """A group of plain text, or one sign."""
        if self.take() != "{":
            return self.tokens[self.at - 1]
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at] not in "{}":
            self.at += 1
        text = " ".join("".join(self.tokens[start : self.at]).split("\n"))
        self.take("}")
        text = text.replace("\\_", "_").replace("\\ ", " ").replace("\\,", " ").replace(" ", "\N{NO-BREAK SPACE}")
        if "\\" in text or "$" in text:
            raise _UnknownError
        return text

    def fraction(self) -> Element:
        """Two groups, one above the other."""
        return _of("mfrac", self.argument(), self.argument())

    def choose(self) -> Element:
        """Two groups in brackets, one above the other."""
        inside = _of("mfrac", self.argument(), self.argument(), linethickness="0")
        return _of("mrow", _leaf("mo", "("), inside, _leaf("mo", ")"))

    def root(self) -> Element:
        """A square root, or one of another degree."""
        if self.peek() != "[":
            return _of("msqrt", self.argument())
        self.take()
        degree = self.row(("]",))
        self.take("]")
        return _of("mroot", self.argument(), degree)

    def modulo(self) -> Element:
        """The remainder as an operator between its operands."""
        return _leaf("mo", "mod", lspace="0.22em", rspace="0.22em")

    def dropped(self) -> None:
        """A name that nothing is shown for."""
        self.words()

    def fenced(self) -> Element:
        """What is between a `left` and a `right`, whose brackets are as high as it is."""
        opening = self.bracket()
        inside = self.row(("\\right",))
        self.take()
        return _of("mrow", *opening, inside, *self.bracket())

    def bracket(self) -> list[Element]:
        """A bracket that grows; nothing for a point, which stands for no bracket."""
        token = self.take()
        sign = _OPERATORS.get(token, token)
        if len(sign) > 1:
            raise _UnknownError
        return [] if sign == "." else [_leaf("mo", sign, stretchy="true", fence="true")]

    # ------------------------------------------------------------------ tables

    def environment(self) -> Element:
        """From the name in a `begin` to its `end`."""
        name = self.words()
        plain = name.rstrip("*")
        if plain not in _AROUND and plain not in _LINES:
            raise _UnknownError
        if plain == "array":
            self.words()  # how its columns are aligned
        rows = self.table(("\\end",))
        self.take()
        if self.words() != name:
            raise _UnknownError
        if plain in _LINES:
            return self.lines(rows)
        style = _ALIGNED[1] if plain == "cases" else ""
        fences = [[_leaf("mo", sign, stretchy="true", fence="true")] if sign else [] for sign in _AROUND[plain]]
        return _of("mrow", *fences[0], _grid(rows, style), *fences[1])

    def table(self, ends: tuple[str, ...]) -> list[list[Element]]:
        """Rows of cells; an empty last row is left out."""
        rows: list[list[Element]] = [[]]
        stops = (*ends, "&", "\\\\")
        while True:
            rows[-1].append(self.row(stops))
            if self.peek() in ends:
                break
            if self.take() == "\\\\":
                rows.append([])
        if len(rows) > 1 and len(rows[-1]) == 1 and rows[-1][0].tag == "mrow" and not len(rows[-1][0]):
            rows.pop()
        return rows

    def lines(self, rows: list[list[Element]]) -> Element:
        """Formulas below each other, aligned on the right and on the left of each second `&`."""
        several = len(rows) > 1 or len(rows[0]) > 1
        return _grid(rows, *_ALIGNED, displaystyle="true") if several else rows[0][0]


def _grid(rows: list[list[Element]], *styles: str, **attributes: str) -> Element:
    """Rows of cells as a table, whose columns have the styles in turn; a cell alone in its row has none."""
    table = Element("mtable", attributes)
    for cells in rows:
        row = _of("mtr")
        for number, cell in enumerate(cells):
            style = styles[number % len(styles)] if len(cells) > 1 else ""
            row.append(_of("mtd", cell, **({"style": style} if style else {})))
        table.append(row)
    return table


def _in_font(font: str, sign: str) -> str:
    """A letter in a font, as a sign of its own."""
    large, small, own = _FONTS[font]
    if sign in own:
        return own[sign]
    if "A" <= sign <= "Z":
        return chr(large + ord(sign) - ord("A"))
    if "a" <= sign <= "z" and small:
        return chr(small + ord(sign) - ord("a"))
    if sign.isdigit() and font == "\\mathbf":
        return chr(0x1D7CE + int(sign))
    if sign.isalnum() or sign.isspace():
        return sign
    raise _UnknownError


_COMMANDS: dict[str, Callable[[_Reader], Element | None]] = {
    "\\frac": _Reader.fraction,
    "\\dfrac": _Reader.fraction,
    "\\tfrac": _Reader.fraction,
    "\\binom": _Reader.choose,
    "\\sqrt": _Reader.root,
    "\\bmod": _Reader.modulo,
    "\\mod": _Reader.modulo,
    "\\left": _Reader.fenced,
    "\\begin": _Reader.environment,
    "\\label": _Reader.dropped,
    "\\tag": _Reader.unknown,
}
