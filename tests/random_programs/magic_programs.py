"""Random magics with random options, on random operators.

A seed is a session: an operator in a `%%tensor` cell, a schedule of it, and some lines. Each line shows a result, or is
refused by an error that a user can understand; nothing else may come of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import time
from typing import Any

import cell_programs
from outcomes import Wrong, refusal

SECONDS = 20  # of processor time for one line
TARGETS = ("aarch64", "x86-64-v2", "'llvm -mcpu=haswell'", "riscv64", "wasm32", "nonsense", "'llvm -mcpu=nonsense'")
PASSES = ("calls", "InferBound", "VectorizeLoop", "Simplify,UnrollLoop", "Nonsense", "StorageFlatten")
SHOW = (
    "-q",
    "--hide",
    "--verify",
    "--check",
    "-c",
    "--time",
    "--cost",
    f"-p {PASSES[1]}",
    "-p calls",
    "--size 7",
    "--size 1",
)
VERSION = ("-v plain", "-v default", "-v other", "--name auto", "")
LINES: dict[str, tuple[str, ...]] = {
    "passes": (*(f"-p {p}" for p in PASSES), *VERSION, "--hide", "--verify", "--text", "--notation classic", "--notation cinn",
               "--notation wrong", "--llvm all", "--llvm none", *(f"--target {t}" for t in TARGETS), "--size 4"),
    "bench": (*VERSION, "--seconds 0.001", "--seconds 1ms", "--plot", "--check", "--size 9", "--against np.dot",
              "--against max", "--against nothing", "plain", "default", "other"),
    "compare": ("A:plain", "A:default", "A", "plain", "auto", "--time", "-t", "nobody"),
    "why": (*VERSION, "--no-run", "--size 5", *(f"--target {t}" for t in TARGETS)),
    "graph": (*VERSION, *(f"-k {k}" for k in ("stages", "iters", "blocks", "regions", "access", "wrong")), "-s S0", "-s R", "-s X0"),
    "bounds": (*VERSION, "-r", "--ranges"),
    "asm": (*VERSION, "--loop", "--beside aarch64", "--beside nonsense", "--target ascend", *(f"--target {t}" for t in TARGETS)),
    "llvm": (*VERSION, "--raw", *(f"--target {t}" for t in TARGETS)),
    "auto": (*SHOW, "--cell", "--name other", *(f"--target {t}" for t in TARGETS[:3])),
    "program": ("VectorizeLoop", "0", "3", "99", "Simplify", "Simplify:2", *VERSION),
    "machine": ("A", "--size 64"),
}  # fmt: skip
CELL = ("-q", "--code", "--auto")
_shells: list[Any] = []


def shell() -> Any:
    """An IPython with the extension, one for the process."""
    if not _shells:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        _shells.append(InteractiveShell.instance(colors="nocolor", config=config))
        _shells[0].run_line_magic("load_ext", "tvmagic")
        _shells[0].run_line_magic("config", "TensorMagics.bench_seconds = 0.001")
    return _shells[0]


class Case:
    """The session of a seed; `without` may name magics."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.seed, self.without = random.Random(seed), seed, without
        self.calls: list[str] = []
        self.replay: list[str] | None = None
        self.target = "llvm"
        self.cell = cell_programs.Case(self.rng.randrange(10**9))

    def make(self) -> None:
        """Choose the cells and lines."""
        rng = self.rng
        self.cell.make()
        calls = "\n".join(self.cell.calls) or "s[op.outputs[0]]"
        self.texts = [("tensor", f"op {self.options(CELL, 0.1)}", self.cell.program.cell())]
        self.texts.append(
            ("schedule", f"op {self.options((*SHOW, '--play'), 0.15)}", f"from tvmagic import te, tir\n{calls}")
        )
        for name in rng.sample(sorted(LINES), 5):
            if name in self.without:
                continue
            options = self.options(LINES[name], 2 / len(LINES[name])).replace("A:", "op:").replace(" A ", " op ")
            first = "" if name == "machine" else "op"
            self.texts.append((name, f"{first} {options}".strip(), None))

    def options(self, choices: tuple[str, ...], chance: float) -> str:
        return " ".join(option for option in choices if option and self.rng.random() < chance)

    def check(self) -> None:
        """Raise `Wrong` unless each line shows something or is refused well."""
        self.make()
        os.environ.setdefault("MPLBACKEND", "agg")
        for name, line, body in self.texts:
            begin = time.process_time()
            self.run(name, line, body)
            if time.process_time() - begin > SECONDS:
                raise Wrong("hang", f"%{name} {line}: {time.process_time() - begin:.0f} s")

    def run(self, name: str, line: str, body: str | None) -> None:
        from IPython.core.error import UsageError

        where, output = shell(), io.StringIO()
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                if body is None:
                    shown = where.run_line_magic(name, line)
                else:
                    shown = where.run_cell_magic(name, line, body)
                for method in ("_repr_html_", "_repr_mimebundle_", "text", "__repr__"):
                    if hasattr(shown, method):
                        getattr(shown, method)()
        except UsageError as error:
            if not any(words in str(error) for words in ("; ", "(see %", "such as")):
                raise Wrong("refused", f"%{name} {line}: no hint: {error}") from error
        except Exception as error:
            if not refusal(error):
                what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                raise Wrong("internal", f"%{name} {line}: {what}") from error
            said = " ".join(str(error).split())[:300]
            if not getattr(error, "hint", None):
                raise Wrong("refused", f"%{name} {line}: no hint: {said}") from error
            if body is not None and getattr(error, "span", None) is None:
                raise Wrong("refused", f"%{name} {line}: no place: {said}") from error
            self.calls.append(f"%{name} {line}  # {said[:200]}")
        else:
            self.calls.append(f"%{name} {line}")

    def text(self) -> str:
        """The session."""
        return "\n\n".join(f"%{'%' * (body is not None)}{name} {line}\n{body or ''}" for name, line, body in self.texts)

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: there are none that would matter."""
        return []
