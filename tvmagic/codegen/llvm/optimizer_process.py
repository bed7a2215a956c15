"""LLVM's passes in a process of their own: its options are global there, and what LLVM writes to the error stream is kept.

As a program: standard input is a JSON object with `text` (LLVM's text), `imports`, `target`, `options` and `passes` (whether
LLVM's passes run); standard output is the assembly; the error stream is LLVM's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache

from tvmagic.target import Target

_SECONDS = 60.0  # after which the process is given up


def optimized_apart(
    text: str, target: Target, options: tuple[str, ...], imports: tuple[str, ...] = ()
) -> tuple[str, str] | None:
    """The assembly of LLVM's text and what LLVM wrote about its passes, run with LLVM's own `options`; None if that fails."""
    return _asked(text, json.dumps(target.export()), options, imports)


def compiled_apart(text: str, target: Target) -> str | None:
    """The assembly of LLVM's text, without LLVM's passes on the text; None if that fails, or ends the process."""
    done = _asked(text, json.dumps(target.export()), (), (), False)
    return None if done is None else done[0]


@lru_cache
def _asked(
    text: str, target: str, options: tuple[str, ...], imports: tuple[str, ...], passes: bool = True
) -> tuple[str, str] | None:
    asked = json.dumps({"text": text, "imports": imports, "target": target, "options": options, "passes": passes})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "tvmagic.codegen.llvm.optimizer_process"]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=_SECONDS, env=environment, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout, done.stderr


def main() -> None:
    """Optimize the text that comes in, with LLVM's options set."""
    import llvmlite.binding as llvm

    from tvmagic.codegen.llvm.optimize import assembly_of, optimized
    from tvmagic.target.llvm_module import parse_module

    asked = json.load(sys.stdin)
    for option in asked["options"]:
        llvm.set_option("tvmagic", option)
    target, text = Target(asked["target"]), asked["text"]
    module = optimized(text, target, tuple(asked["imports"])) if asked["passes"] else parse_module(text)
    sys.stdout.write(assembly_of(module, target))


if __name__ == "__main__":
    main()
