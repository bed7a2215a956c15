"""What would work in place of a word that a magic does not take: its own options, those of others, and what people expect."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Sequence

from tvmagic.errors import closest
from tvmagic.target.names import TARGETS

# What flags are called elsewhere.
_ELSEWHERE = {
    "--target": ("arch", "march", "mcpu", "device", "gpu", "cuda", "backend", "t"),
    "--check": ("test", "verify", "validate", "assert"),
    "--trials": ("iterations", "iters", "number"),
    "--against": ("baseline", "numpy", "ref", "reference", "vs"),
    "--passes": ("only", "pass", "filter", "steps", "step"),
    "--text": ("diff", "plain", "print", "list"),
    "--seconds": ("time", "timeout", "t", "budget", "duration", "repeat", "r", "number", "n", "runs", "loops", "warmup", "iterations"),
    "--raw": ("opt", "O", "O0", "unoptimized", "noopt"),
    "--kind": ("type", "view"),
    "--stage": ("buffer", "tensor", "block"),
    "--size": ("shape", "sizes"),
}  # fmt: skip
# What is asked for by a flag that no magic has, and how it is.
_ANSWERS = {
    ("intel", "att", "syntax"): "the assembly is in AT&T syntax, in which the destination comes last",
    ("O1", "O2", "O3", "Os", "opt", "optimize"): "code is always optimized; `%llvm NAME --raw` shows it before LLVM's passes",
    ("tol", "rtol", "atol", "tolerance", "eps"): "no tolerance is asked for, as each value has its own bound on rounding "
    "errors (docs/checking.md)",
    ("threads", "jobs", "num-threads", "j"): "the environment variable TVMAGIC_NUM_THREADS says how many threads there are",
    ("dtype",): "the data types are those of the `%%tensor` cell",
}  # fmt: skip
_FILLERS = ("with", "against", "and", "to", "vs", "vs.", "versus", "for", "on", "of", "by", "beside", "=")
# What magics are called elsewhere; `%` and a name is one of ours, all else is said as it is.
_MAGICS = {
    "%passes NAME --verify": ("verify",),
    "%check NAME": ("test", "validate", "equal", "correct", "allclose"),
    "%bench NAME": ("benchmark", "measure", "timing", "perf", "speed"),
    "%why NAME": ("explain", "profile", "roofline", "analyze", "cost"),
    "%passes NAME": (
        "lower",
        "ir",
        "tir",
        "show",
        "steps",
        "step",
        "trace",
        "stepper",
        "lowered",
        "loops",
        "debug",
        "dump",
    ),
    "%graph NAME": ("plot", "draw", "stages", "tree", "picture", "visualize", "viz", "dag"),
    "%asm NAME": ("assembly", "disasm", "disassemble", "objdump", "code", "ptx"),
    "%llvm NAME": ("llvmir", "llvm_ir", "bitcode"),
    "%compare A B": ("diff",),
    "%auto NAME": ("autoschedule", "auto_schedule"),
    "%tune NAME": ("autotune", "search", "optimize"),
    "%bounds NAME": ("ranges", "infer_bound", "inferbound", "regions"),
    "%tvmagic": ("tvm", "magics", "tensor_help", "operators"),
    "%program NAME STEP": ("edit",),
    "%%tensor NAME": ("operator", "op", "define", "kernel"),
    "%%schedule NAME": ("sched",),
}


def is_filler(word: str) -> bool:
    """Whether a word is one of English alone: `%compare a with b`."""
    return word.lower() in _FILLERS


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?` where some known word is near."""
    bare = word.lstrip("-").split("=")[0]
    word = re.sub("^[\u2010-\u2015\u2212\uff0d]+", "--", word)  # dashes that editors of texts make of two hyphens
    close = closest(word, known) or next((k for k in known if bare in _ELSEWHERE.get(k, ())), None)
    return f"; did you mean `{close}`?" if close else ""


def takes(actions: Iterable[argparse.Action]) -> str:
    """Return the arguments that a magic takes, for example `NAME, --target T, --loop`."""
    return ", ".join(map(_argument_text, actions))


def _argument_text(action: argparse.Action) -> str:
    """An argument as one writes it."""
    value = "" if action.nargs == 0 else action.metavar or action.dest.upper()
    if not action.option_strings:
        return f"{value}"
    flag = next((f for f in action.option_strings if f.startswith("--")), action.option_strings[0])
    optional = action.nargs == "?"
    return f"{flag} [{value}]" if optional else f"{flag} {value}".strip()


def instead_of_flag(word: str, flags: Sequence[str], others: Collection[tuple[str, Sequence[str]]]) -> str:
    """The end of the sentence that there is no option `word`: what would work; empty if nothing is known.

    `flags` are those of the magic, `others` the names and flags of the other magics.
    """
    bare = word.lstrip("-").split("=")[0]
    if meant := did_you_mean(word, flags):
        return meant
    if (said := next((text for names, text in _ANSWERS.items() if bare in names), None)) is not None:
        return f"; {said}"
    having = [name for name, theirs in others if word.startswith("--") and word.split("=")[0] in theirs]
    if having:
        shown = " and ".join(f"`{name}`" for name in having[:3])
        return f"; {shown} {'has' if len(having) == 1 else 'have'} it"
    return ""


def instead_of_word(word: str, flags: Sequence[str], name: str | None, is_pass: bool, is_version: bool) -> str:
    """The end of the sentence that there is no argument `word`: what would work; empty if nothing is known.

    `name` is the operator that the line names; `is_pass` and `is_version` say what the word is, or may become, the name of.
    """
    if is_filler(word):
        return "; leave it out"
    if ":" in word and name:
        return f"; `%compare {name} {word}` shows two"
    if "--passes" in flags and is_pass:
        return f"; did you mean `--passes {word}`?"
    if "--target" in flags and (word in TARGETS or closest(word, list(TARGETS))):
        return f"; did you mean `--target {word}`?"
    if "--against" in flags and "." in word:
        return f"; did you mean `--against {word}`?"
    if word.replace(".", "", 1).isdigit():
        numbers = [flag for flag in ("--seconds", "--trials", "--size", "--seed") if flag in flags]
        return f"; did you mean `{numbers[0]} {word}`?" if numbers else ""
    flag = "--name" if is_version and "--name" in flags else "--stage"
    return f"; did you mean `{flag} {word}`?" if word.isidentifier() and flag in flags else ""


def instead_of_magic(name: str, known: Collection[str]) -> str:
    """What would work in place of a magic that there is not; empty if it has nothing to do with us."""
    bare = name.lstrip("%")
    if not bare:
        return "the name of a magic follows its `%` without a blank, as in `%%tensor NAME`"
    if name in known and name.startswith("%%"):  # it was looked for among the magics of lines
        return f"`{name}` is a magic for a cell and begins it: put what is above it into a cell of its own"
    meant = next((text for text, names in _MAGICS.items() if bare.lower() in names), None)
    if meant is None and (close := closest(bare, [k.lstrip("%") for k in known])) is not None:
        meant = next(k for k in known if k.lstrip("%") == close) + " NAME"
    return f"did you mean `{meant}`?" if meant else ""
