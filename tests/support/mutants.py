"""Do the tests notice faults? Plants one small fault at a time and runs the tests of that package.

usage: mutants.py [--count 300] [--seed 0] [--jobs 1] [--package arith ...] [--only PATH:LINE ...]

A mutant is one change in one file: an operator (`+` for `-`, `//` for `*`), a comparison (`<=` for `<`), `and` for
`or`, a dropped `not`, a number that is one more, `True` for `False`. The mutants are drawn at random from the
packages below, the same number from each. Each runs in a copy of the tree, against the tests of its package that call
the changed function (`covering.py` keeps what they execute from one call of this command to the next), the quickest
first, and is killed by the first that fails or by taking ten times as long as usual. Survivors are printed, with the
line before and after. Needs pytest-cov.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from covering import ROOT, copy_tree, covered, pytest

# What is mutated, and the tests that are to notice it.
PACKAGES = {
    "ir": (("tvmagic/ir", "tvmagic/eval"), ("tests/ir", "tests/eval")),
    "arith": (("tvmagic/arith",), ("tests/arith",)),
    "te": (("tvmagic/te/schedule",), ("tests/te",)),
    "primitives": (("tvmagic/tir/schedule",), ("tests/tir",)),
    "transforms": (("tvmagic/tir/transform", "tvmagic/tir/analysis"), ("tests/tir",)),
    "codegen": (("tvmagic/codegen",), ("tests/codegen", "tests/runtime")),
    "notation": (("tvmagic/notation", "tvmagic/operators"), ("tests/notation", "tests/operators")),
    "cinn": (("tvmagic/cinn", "tvmagic/cinn/text/printer*"), ("tests/cinn",)),
    "ascend": (("tvmagic/ascend",), ("tests/ascend",)),
}
SWAPS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "//", ast.Pow: "*",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.And: "or", ast.Or: "and",
}  # fmt: skip
SYMBOL = re.compile(r"not\s+in\b|is\s+not\b|is\b|in\b|and\b|or\b|<<|>>|//|\*\*|<=|>=|==|!=|[-+*/%&|^<>]")


@dataclass(frozen=True)
class Mutant:
    """`old` at `offset` of a file's text becomes `new`; `function` is the first line of the function around it, or 0."""

    package: str
    path: str
    line: int
    offset: int
    old: str
    new: str
    function: int

    def apply(self, text: str) -> str:
        assert text[self.offset : self.offset + len(self.old)] == self.old
        return text[: self.offset] + self.new + text[self.offset + len(self.old) :]


class Sites(ast.NodeVisitor):
    """Every mutant of one file. What is no behaviour is left out: annotations, `__all__`, texts."""

    def __init__(self, package: str, path: str, text: str) -> None:
        self.package, self.path, self.text = package, path, text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = text.splitlines()
        self.function = 0
        self.found: list[Mutant] = []
        self.visit(ast.parse(text))

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def add(self, line: int, offset: int, old: str, new: str) -> None:
        self.found.append(Mutant(self.package, self.path, line, offset, old, new, self.function))

    def between(self, left: ast.expr, right: ast.expr, new: str) -> None:
        """Replace the operator that is written between two operands."""
        start = self.at(left.end_lineno or 0, left.end_col_offset or 0)
        gap = self.text[start : self.at(right.lineno, right.col_offset)]
        symbol = SYMBOL.search(re.sub(r"#.*", lambda m: " " * len(m[0]), gap))
        if symbol is not None:
            self.add(left.end_lineno or 0, start + symbol.start(), symbol[0], new)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        outer, self.function = self.function, self.function or node.lineno
        for statement in node.body:
            self.visit(statement)
        self.function = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {t.id for t in node.targets if isinstance(t, ast.Name)}
        if not names & {"__all__", "__slots__"}:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """But `and` that becomes `or`: what always holds and is claimed more weakly holds as well."""
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            for part in node.test.values:
                self.visit(part)
        else:
            self.visit(node.test)

    def visit_keyword(self, node: ast.keyword) -> None:
        """But `strict=True` of a `zip`, an assertion: without it nothing is different where it holds."""
        if node.arg != "strict" or not isinstance(node.value, ast.Constant) or node.value.value is not True:
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """The parts of a text have no places of their own."""

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in SWAPS and not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
            self.between(node.left, node.right, SWAPS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:]):
            self.between(left, right, SWAPS[type(node.op)])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            self.between(left, right, SWAPS[type(op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(node.lineno, self.at(node.lineno, node.col_offset), "not", "   ")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool) or isinstance(value, int):
            start = self.at(node.lineno, node.col_offset)
            old = self.text[start : self.at(node.end_lineno or 0, node.end_col_offset or 0)]
            self.add(node.lineno, start, old, str(not value) if isinstance(value, bool) else str(value + 1))


def files_of(package: str) -> list[pathlib.Path]:
    found: set[pathlib.Path] = set()
    for place in PACKAGES[package][0]:
        for path in ROOT.glob(place):
            found |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return sorted(found)


def mutants_of(package: str) -> list[Mutant]:
    found: list[Mutant] = []
    for path in files_of(package):
        found += Sites(package, str(path.relative_to(ROOT)), path.read_text()).found
    return found


def functions_in(path: str) -> dict[int, tuple[int, int]]:
    """The first line (of a decorator, if there is one) and the last of each function of a file, by its `def`'s line."""
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    functions = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {n.lineno: (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno or 0) for n in functions}


@dataclass
class Trial:
    """A mutant, the tests that are to notice it and the time after which it is killed, in seconds."""

    mutant: Mutant
    tests: list[str]
    seconds: float


def survives(trial: Trial) -> bool:
    """Whether all tests of a trial pass in a process of their own with the fault in place from its start."""
    if not trial.tests:
        return True
    with tempfile.TemporaryDirectory() as place:
        tree = copy_tree(pathlib.Path(place))
        plant(tree, trial.mutant)
        (tree / "chosen.txt").write_text("\n".join(trial.tests))
        return pytest(tree, ["-x", "@chosen.txt"], 50 + trial.seconds) == 0


def plant(tree: pathlib.Path, mutant: Mutant) -> None:
    path = tree / mutant.path
    text = path.read_text()
    path.unlink()
    path.write_text(mutant.apply(text))


def survive_in_forks(trials: list[Trial], folders: tuple[str, ...]) -> list[bool | None]:
    """`survives` for many at once, without starting pytest again; None if that cannot say."""
    with tempfile.TemporaryDirectory() as place:
        tree = copy_tree(pathlib.Path(place))
        questions = []
        for trial in trials:
            mutant = trial.mutant
            text = mutant.apply((ROOT / mutant.path).read_text())
            questions.append({"path": mutant.path, "text": text, "tests": trial.tests, "seconds": trial.seconds})
        (tree / "questions.json").write_text(json.dumps(questions))
        answers = tree / "answers.txt"
        answers.touch()
        with open(tree / "said.txt", "w") as said:
            command = [sys.executable, "tests/support/forks.py", "questions.json", "answers.txt", *folders]
            environment = {
                **os.environ,
                "PYTHONPATH": str(tree),
                "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / ".hypothesis"),
            }
            subprocess.run(command, cwd=tree, stdout=said, stderr=said, env=environment)
        found: list[bool | None] = [None] * len(trials)
        for line in answers.read_text().splitlines():
            number, answer = line.split()
            found[int(number)] = {"True": True, "False": False}.get(answer)
        return found


def survivors_of(package: str, mutants: list[Mutant], jobs: int) -> list[Mutant]:
    found = covered(files_of(package), PACKAGES[package][1], jobs)
    functions = {path: functions_in(path) for path in {m.path for m in mutants}}
    in_forks: list[Trial] = []
    alone: list[Trial] = []
    for mutant in mutants:
        tests = found.of(mutant.path, mutant.line, functions[mutant.path].get(mutant.function))
        trial = Trial(mutant, tests, 10 + 10 * sum(found.seconds[t] for t in tests))
        forked = mutant.function and tests and not found.before(mutant.path, mutant.line)
        (in_forks if forked else alone).append(trial)
    survived: list[Mutant] = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = [in_forks[n::jobs] for n in range(jobs) if in_forks[n::jobs]]
        for part, answers in zip(parts, pool.map(survive_in_forks, parts, [PACKAGES[package][1]] * len(parts))):
            survived += [t.mutant for t, answer in zip(part, answers) if answer]
            alone += [t for t, answer in zip(part, answers) if answer is None]
        survived += [t.mutant for t, answer in zip(alone, pool.map(survives, alone)) if answer]
    return survived


def show(mutant: Mutant) -> str:
    text = (ROOT / mutant.path).read_text()
    before = text.splitlines()[mutant.line - 1].strip()
    after = mutant.apply(text).splitlines()[mutant.line - 1].strip()
    return f"{mutant.path}:{mutant.line}: `{mutant.old}` became `{mutant.new.strip()}`\n    {before}\n    {after}"


def draw(packages: list[str], count: int, seed: int, only: list[str]) -> list[Mutant]:
    rng = random.Random(seed)
    chosen: list[Mutant] = []
    for n, package in enumerate(packages):
        found = mutants_of(package)
        if only:
            chosen += [m for m in found if f"{m.path}:{m.line}" in only]
            continue
        share = (count + n) // len(packages)
        chosen += rng.sample(found, min(share, len(found)))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--package", nargs="*", choices=list(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--only", nargs="*", default=[], help="mutants of these lines alone, as PATH:LINE")
    parser.add_argument("--report", help="a JSON file for what was found")
    options = parser.parse_args()

    mutants = draw(options.package, options.count, options.seed, options.only)
    tally: dict[str, list[int]] = {}
    survivors: list[Mutant] = []
    for package in dict.fromkeys(m.package for m in mutants):
        mine = [m for m in mutants if m.package == package]
        survived = survivors_of(package, mine, options.jobs)
        for mutant in survived:
            print(show(mutant), flush=True)
        survivors += survived
        tally[package] = [len(mine) - len(survived), len(mine)]
        print(f"{package}: {tally[package][0]} of {tally[package][1]} killed", flush=True)
    killed, total = (sum(column) for column in zip(*tally.values()))
    print(f"{killed} of {total} killed, {100 * killed / max(total, 1):.1f}%")
    if options.report:
        pathlib.Path(options.report).write_text(json.dumps([m.__dict__ for m in survivors], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
