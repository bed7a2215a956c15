"""What LLVM says of a processor and its features before it makes code for them here.

LLVM ends the process if they do not go together (32-bit processors for a 64-bit triple, say), and
prints a line and goes on if it does not know a name. So it is tried in a process of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache

from tvmagic.errors import BuildError
from tvmagic.target.families import Family, family_of_triple
from tvmagic.target.host import has_llvm, host_features

_SECONDS = 60
_PROBE = """
import sys
import llvmlite.binding as llvm
triple, cpu, features = sys.argv[1:]
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)
text = 'target triple = "' + triple + '"\\n' + sys.stdin.read()
module = llvm.parse_assembly(text)
module.verify()
machine.emit_assembly(module)
"""
_FUNCTION = """
define double @probe(ptr %p, i64 %n) {
  %q = getelementptr float, ptr %p, i64 %n
  %x = load <8 x float>, ptr %q, align 4
  %y = fmul <8 x float> %x, %x
  store <8 x float> %y, ptr %q, align 4
  %z = extractelement <8 x float> %y, i32 0
  %d = fpext float %z to double
  ret double %d
}
"""


@lru_cache
def check_machine(triple: str, cpu: str, features: str) -> None:
    """Raise BuildError if LLVM does not know the processor or a feature, or cannot make code for them."""
    for feature in filter(None, features.split(",")):
        if feature[0] not in "+-":
            raise BuildError(
                f"the feature `{feature}` is neither switched on nor off",
                hint=f"write `-mattr=+{feature}` or `-mattr=-{feature}`",
                code="target.wrong_feature",
            )
    done = _probe(triple, cpu, features, _FUNCTION)
    if done is None:
        return
    unknown = re.search(r"'[+-]?(\S+)' is not a recognized (processor|feature)", done.stderr)
    if unknown is not None:
        raise BuildError(
            f"LLVM here knows no {unknown[2]} `{unknown[1]}` for `{triple}`",
            hint=f"leave the {unknown[2]} out: the code then runs on every processor of this architecture",
            code="target.unknown_name_for_llvm",
        )
    if done.returncode:
        fatal = re.search(r"LLVM ERROR: (.*)", done.stderr)
        why = f": {fatal[1]}" if fatal else ""
        raise BuildError(
            f"LLVM cannot make code for the processor `{cpu}` with these features for `{triple}`{why}",
            code="target.no_code_for_processor",
        )


def _probe(triple: str, cpu: str, features: str, text: str) -> subprocess.CompletedProcess[str] | None:
    """LLVM making code of `text` in a process of its own; None without LLVM or if no other process can be had."""
    if not sys.executable or not has_llvm():
        return None
    try:
        return subprocess.run(
            [sys.executable, "-c", _PROBE, triple, cpu, features],
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None  # LLVM is taken at its word


def why_refused(
    machine: tuple[str, str, str], name: str, result: str, types: list[str], values: list[str]
) -> str | None:
    """Why LLVM refuses a call of its intrinsic `name` on a machine (triple, processor, features), in its words, or None.

    It ends the process if the machine has no instruction for it, and in some versions if the arguments are wrong.
    `values` are the operands with their types; those that are constants must be so.
    """
    heads = [f"{kind} %p{n}" for n, kind in enumerate(types)]
    given = [v if v.split()[-1][0] not in "%@" else head for v, head in zip(values, heads)]
    text = f"declare {result} @{name}({', '.join(types)})\ndefine {result} @probe({', '.join(heads)}) {{\n"
    call = f"call {result} @{name}({', '.join(given)})"
    text += f"  {call}\n  ret void\n}}\n" if result == "void" else f"  %r = {call}\n  ret {result} %r\n}}\n"
    return _refusal(*machine, text)


@lru_cache
def _refusal(triple: str, cpu: str, features: str, text: str) -> str | None:
    done = _probe(triple, cpu, features, text)
    if done is None or done.returncode == 0:
        return None
    said = re.search(r"(?:LLVM ERROR|RuntimeError|Assertion `[^\n]*?\"(?=.*\"')): ?(.*)", done.stderr)
    return said[1] if said else "it ends there"


def check_architecture(triple: str) -> None:
    """Raise BuildError if the triple's architecture has no family: its code generator may end the process on what it lacks."""
    if type(family_of_triple(triple)) is Family:
        raise BuildError(
            f"there is no code for the architecture of the triple `{triple}`",
            hint="triples begin with x86_64, aarch64, arm, riscv64, wasm32, powerpc64le, s390x, nvptx64 or the like",
            code="target.unknown_architecture",
        )


def check_features_of_host(features: list[str]) -> list[str]:
    """The features to switch off so that no code is made that this machine cannot run.

    Raises BuildError if one of `features` is asked for that it does not have.
    """
    own = host_features()
    for feature in features:
        if feature.startswith("+") and own.get(feature[1:]) is False:
            raise BuildError(
                f"this machine has no `{feature[1:]}`, so code with it cannot run here",
                hint="its text can be had with `tvmagic.codegen.llvm_ir` and `tvmagic.codegen.assembly`",
                code="target.feature_missing_on_host",
            )
    return [f"-{name}" for name, has in own.items() if not has]
