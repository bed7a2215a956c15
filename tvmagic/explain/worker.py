"""A process of its own for LLVM's passes with remarks: its options are global, and it writes remarks to the error stream.

Standard input: a JSON object with `text` (LLVM's text), `target` and `options`. Standard output: one with the assembly.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Optimize the text that comes in, with LLVM's options set."""
    import llvmlite.binding as llvm

    from tvmagic.codegen.optimize import assembly_of, optimized
    from tvmagic.codegen.target import Target

    asked = json.load(sys.stdin)
    for option in asked["options"]:
        llvm.set_option("tvmagic", option)
    target = Target(asked["target"])
    module = optimized(asked["text"], target)
    json.dump({"assembly": assembly_of(module, target)}, sys.stdout)


if __name__ == "__main__":
    main()
