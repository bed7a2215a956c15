"""Words that a reader with English as a second language may stumble on, counted in messages, docstrings and pages.

    python tests/support/english.py            # a table: how often each is used where
    python tests/support/english.py --list messages arith

`INSTEAD` says what is written in their place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tvmagic"

# what is counted (a regular expression), and what is written in its place
INSTEAD = {
    r"(?:[,;(] |\b(?:None|raises?|error|empty|zero|nothing|one|true|false|only|also|even|except|refused|needed) )where\b": "if, when",
    r"\bst(?:ands?|anding|ood) (?:in(?! for)|under|by|at|on|above|below|beside|inside|outside|before|after|between|there|here|behind|next|first|last|alone|innermost)\b": "is in, appears in, is below",
    r"\bby NumPy\b": "in NumPy, with NumPy",
    r"(?<!there )\b(?:is|are|was|be) (?-i:none)\b(?! of)": "is not one",
    r"\bnot taken is not read\b": "the branch not taken is not evaluated",
    r"\btells all\b": "lists all",
    r"\bgoes by\b": "navigate with, follows",
    r"\bwhere they part\b": "at which they diverge",
    r"\bin turns\b": "interleaved",
    r"\bunless told\b": "by default",
    r"\bround (?:it|the|a|an|them|which|its|each|this|that|every|all|what|one|both|those)\b(?! nearest)": "around",
    r"\bcannot stand\b": "cannot be converted to an expression, cannot appear",
    r"\bcannot be said\b": "cannot be expressed",
    r"\banew\b": "again",
    r"\b(?:in|out)side of\b": "inside, outside",
    r"\bthe ones? that\b": "the X that",
    r"(?<!there )\b(?:is|was|are|were) no (?!longer|more|less|better|larger|wider|such|help|iteration|slip|one\b)[a-z]": "is not a",
}
PATTERNS = {re.compile(words, re.IGNORECASE): instead for words, instead in INSTEAD.items()}
AREAS = ("messages", "docstrings", "pages")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(path: Path) -> Iterator[tuple[str, int, str]]:
    """The texts of a file: what they are (one of `AREAS`), the line, and the text, its white space as one blank each."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        for number, line in enumerate(source.splitlines(), 1):
            yield "pages", number, line
        return
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # what is around something comes before it
        if isinstance(node, DOCUMENTED):
            if node.body and isinstance(node.body[0], ast.Expr):
                documented.add(id(node.body[0].value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield "docstrings" if id(node) in documented else "messages", node.lineno, " ".join(node.value.split())


def files() -> list[Path]:
    """The package, and the pages that people read."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [*sorted(PACKAGE.rglob("*.py")), *pages]


def package_of(path: Path) -> str:
    """`arith` for `tvmagic/arith/rewrite/rules.py`; the file's own name for what is beside the packages."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py") if path.is_relative_to(PACKAGE) else path.stem


def found() -> Iterator[tuple[str, str, Path, int, str, str]]:
    """Each use: area, package, file, line, what it is, and the text."""
    for path in files():
        parts = list(texts(path))
        whole = "\n".join(text for _, _, text in parts)
        for pattern in PATTERNS:
            for area, line, text in parts if pattern.search(whole) else ():
                for _ in pattern.finditer(text):
                    yield area, package_of(path), path, line, pattern.pattern, text


def counts() -> dict[str, int]:
    """How many uses there are in each area; those of each package in `area/package`."""
    uses = list(found())
    per_package = Counter(f"{use[0]}/{use[1]}" for use in uses)
    return {**{area: sum(use[0] == area for use in uses) for area in AREAS}, **per_package}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--list"]:
        areas, packages = set(arguments[1:]) & set(AREAS) or set(AREAS), set(arguments[1:]) - set(AREAS)
        for area, package, path, line, pattern, text in found():
            if area in areas and (not packages or package in packages):
                match = re.search(pattern, text, re.IGNORECASE)
                assert match is not None
                shown = text[max(match.start() - 90, 0) : match.end() + 90]
                print(f"{path.relative_to(ROOT)}:{line}: [{match.group().strip()}] {shown}")
        return
    uses = list(found())
    for pattern, instead in INSTEAD.items():
        row = Counter(use[0] for use in uses if use[4] == pattern)
        print(f"{instead:55} {row['messages']:5} {row['docstrings']:5} {row['pages']:5}")
    print(f"{'in all':55} " + " ".join(f"{counts()[area]:5}" for area in AREAS))


if __name__ == "__main__":
    main(sys.argv[1:])
