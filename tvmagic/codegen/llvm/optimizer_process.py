"""LLVM's passes in a process of their own: its options are global there, and what LLVM writes to the error stream is kept.

As a program: standard input is a JSON object with `text` (LLVM's text), `imports`, `target` and `options`; standard output
is the assembly; the error stream is LLVM's.
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


@lru_cache
def _asked(text: str, target: str, options: tuple[str, ...], imports: tuple[str, ...]) -> tuple[str, str] | None:
    asked = json.dumps({"text": text, "imports": imports, "target": target, "options": options})
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

    asked = json.load(sys.stdin)
    for option in asked["options"]:
        llvm.set_option("tvmagic", option)
    target = Target(asked["target"])
    sys.stdout.write(assembly_of(optimized(asked["text"], target, tuple(asked["imports"])), target))


if __name__ == "__main__":
    main()
