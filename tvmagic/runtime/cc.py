"""The C compiler of this machine as a linker."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.files import replacing
from tvmagic.runtime.seal import append_seal
from tvmagic.tools import AR, CC, CXX

__all__ = [
    "create_executable", "create_shared", "create_staticlib", "cross_compiler", "get_cc", "get_cplus_cc",
    "get_target_by_dump_machine",
]  # fmt: skip


_OUTPUT = "OUTPUT"


def get_cc() -> str | None:
    """The name of the C compiler; None if there is none."""
    return next(filter(CC.find, CC.programs), None)


def get_cplus_cc() -> str | None:
    """The name of the C++ compiler; None if there is none."""
    return next(filter(CXX.find, CXX.programs), None)


def get_target_by_dump_machine(compiler: str) -> Callable[[], str | None]:
    """A function that gives the triple that a compiler makes code for; None if it does not say."""

    def get_target_triple() -> str | None:
        try:
            done = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() or None

    return get_target_triple


def cross_compiler(
    compile_func: Callable[..., Any] | str,
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function for the argument `fcompile` of `export_library`: a compiler with options and further files.

    compile_func: the name of a C compiler, or a function that is called as `create_shared` is.
    output_format: the ending of the files that it makes, by default `so`.
    """
    if not callable(compile_func):
        name = str(compile_func)
        get_target_triple = get_target_triple or get_target_by_dump_machine(name)
        call: Callable[..., Any] = functools.partial(create_shared, cc=name)
    else:
        call = compile_func

    def compile_with(outputs: str, objects: Sequence[str] | str, options: Sequence[str] | None = None) -> None:
        given = [objects] if isinstance(objects, str) else list(objects)
        call(outputs, [*given, *(add_files or ())], options=[*always, *(options or ())])

    always = list(options or ())
    compile_with.output_format = output_format or getattr(compile_func, "output_format", "so")  # type: ignore[attr-defined]
    compile_with.get_target_triple = get_target_triple  # type: ignore[attr-defined]
    return compile_with


def create_executable(
    output: str, objects: Sequence[str] | str, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link object files, one of which has the function `main`, to the program `output`."""
    compiler = cc or CC.need()
    given = [objects] if isinstance(objects, str) else list(objects)
    _run(output, [str(compiler), "-o", _OUTPUT, *map(str, given), *options, "-lm"])


def create_shared(
    output: str, objects: Sequence[str] | str, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link object files to the shared library `output`, by the compiler `cc`."""
    compiler = cc or CC.need()
    given = [objects] if isinstance(objects, str) else list(objects)
    command = [str(compiler), "-shared", "-fPIC", "-o", _OUTPUT, *map(str, given), *options, "-lm"]
    _run(output, command, seal=sys.platform != "darwin")


create_shared.output_format = "so"  # type: ignore[attr-defined]


def create_staticlib(output: str, inputs: Sequence[str] | str, ar: str | None = None) -> None:
    """Put object files into the archive `output`."""
    _run(output, [ar or AR.need(), "rcs", _OUTPUT, *([inputs] if isinstance(inputs, str) else map(str, inputs))])


def _run(output: str, command: list[str], seal: bool = False) -> None:
    """Run `command`, which writes the file `output`; the command has `_OUTPUT` instead of its name. `seal`: append a digest."""
    try:
        with replacing(output) as part:
            part.unlink()  # `ar` adds to a file that it finds
            command = [str(part) if word is _OUTPUT else word for word in command]
            subprocess.run(command, check=True, capture_output=True, text=True)
            if seal:
                append_seal(part)
    except FileNotFoundError as error:
        raise TVMagicError(
            f"there is no program `{command[0]}` to link with",
            hint="install it, or name another one",
            code="link.no_linker",
        ) from error
    except OSError as error:
        raise TVMagicError(f"cannot write `{output}`: {error.strerror}", code="link.not_writable") from error
    except subprocess.CalledProcessError as error:
        raise TVMagicError(f"the module cannot be linked: {error.stderr.strip()}", code="link.failed") from error
