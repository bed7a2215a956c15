"""Arguments that several magics have, and what completes them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from IPython.core.error import UsageError

from tvmagic.codegen.late.order import late_passes
from tvmagic.driver import default_passes
from tvmagic.notebook import commands
from tvmagic.notebook.arguments import Argument, Idle, argument, size
from tvmagic.notebook.magic_names import MagicNames
from tvmagic.notebook.view import CALLS
from tvmagic.operators import Operator
from tvmagic.target import resolved
from tvmagic.target.names import TARGETS


def operator_names(magics: MagicNames, _: Operator | None) -> Iterable[str]:
    return magics.operators()


def version_names(_: MagicNames, op: Operator | None) -> Iterable[str]:
    return ["plain", *(op.versions if op is not None else ())]


def pass_names(_: MagicNames, op: Operator | None) -> Iterable[str]:
    """Those of the last schedule; before there is one, those that every operator goes through."""
    record = op.current.record if op is not None else None
    known = [step.name for step in record or () if step.kind == "pass"] or [p.info.name for p in default_passes()]
    known += [p.info.name for p in late_passes(resolved(None))]
    return {CALLS, "InferBound", "ScheduleOps", *(name.rsplit(".", 1)[-1] for name in known)}


def target_names(_magics: MagicNames, _op: Operator | None) -> Iterable[str]:
    return TARGETS


def input_names(magics: MagicNames, _op: Operator | None) -> Iterable[str]:
    """The user's names that may be inputs."""
    hidden = magics.shell.user_ns_hidden if magics.shell is not None else {}
    return [
        name for name, value in magics.namespace.items()
        if isinstance(value, (dict, tuple)) or inspect.isfunction(value) if not name.startswith("_") and name not in hidden
    ]  # fmt: skip


def puzzle_numbers(_magics: MagicNames, _op: Operator | None) -> Iterable[str]:
    from tvmagic.puzzles import puzzles

    return [str(p.number) for p in puzzles()]


NAME = argument("name", metavar="NAME", help="the operator", completes=operator_names)
VERSION = argument(
    "-v", "-n", "--version", "--name", dest="version", metavar="V", completes=version_names,
    help="which of its schedules, by default the last; NAME:V says the same",
)  # fmt: skip
CHECK = argument("-c", "--check", action="store_true", help="compare with NumPy on random inputs, look for races")
AGAINST = argument(
    "--against", metavar="F", help="compare with a function of the inputs instead, such as np.dot (needs --check)"
)
TIME = argument("-t", "--time", action="store_true", help="measure, with NumPy beside it")
SIZE = argument(
    "--size", type=size, metavar="N",
    help="the value of symbolic sizes, by default 256, or less if that is more than 4 million iterations",
)  # fmt: skip
INPUTS = argument(
    "--inputs", metavar="EXPR", completes=input_names,
    help="the inputs instead of random ones: a dict of arrays by name (the others are random), a tuple of them, or a function of a "
    "numpy.random.Generator that returns either; by default NAME.example_inputs",
)  # fmt: skip
ONLY = argument(
    "-p", "--passes", metavar="A,B", help="show only these passes; `calls` are the schedule calls", completes=pass_names
)
TARGET = argument("--target", metavar="T", help="what to compile for (this machine)", completes=target_names)
CHECK_TARGET = argument(
    "--target",
    metavar="T",
    help="what to compile for (this machine): aarch64, aarch64-sve, riscv64, ... With --check it is run, by an emulator "
    "if need be (docs/targets.md)",
    completes=target_names,
)
RUN_TARGET = argument(
    "--target",
    metavar="T",
    help="what to compile for (this machine): aarch64, riscv64, ...; it is run by an emulator if need be (docs/targets.md)",
    completes=target_names,
)
CODE_TARGET = argument(
    "--target",
    metavar="T",
    help=f"{', '.join(TARGETS)}, or a full target such as 'llvm -mcpu=znver4'",
    completes=target_names,
)
ASM_TARGET = argument(
    "--target",
    metavar="T",
    help=f"{', '.join(TARGETS)}, a full target such as 'llvm -mcpu=znver4', or ascend for the source of an NPU's "
    "kernel, which is for reading only",
    completes=lambda magics, op: [*target_names(magics, op), *commands.KERNELS],
)
HIDE = argument("--hide", action="store_true", help="hide passes that changed nothing")
# options that show what a schedule makes, and those that do nothing beside others
SHOWS = ("--passes", "--check", "--time", "--verify", "--prove", "--cost", "--size", "--hide")
IDLE = (
    Idle(("--passes", "--hide"), ("--quiet",)),
    Idle(("--size",), ("--check", "--time"), without=True),
    Idle(("--against",), ("--check",), without=True),
)
PROVE = argument("--prove", action="store_true", help="prove every step equal to the definition, for all inputs")
VERIFY = argument("--verify", action="store_true", help="run the program after every step and compare with NumPy")


def kept(default: str) -> Argument:
    """The name under which a schedule is kept; its flags are those by which others choose one."""
    flags = ("-n", "-v", "--name", "--version")
    words = f"keep the schedule as V ({default})"
    return argument(*flags, dest="version", metavar="V", default=default, help=words, completes=version_names)


def knob(text: str) -> tuple[str, list[Any]]:
    """The name and the values of `tile=4,8,16`."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise UsageError(f"%passes: `--knob {text}` is not a name with values; write --knob tile=4,8,16")
    return name.strip(), [_plain_value(value.strip()) for value in values.split(",") if value.strip()]


def _plain_value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
