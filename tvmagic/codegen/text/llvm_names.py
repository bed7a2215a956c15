"""The names of LLVM's intrinsics, and numbers for them.

LLVM numbers its intrinsics again in each version and its Python package does not tell the numbers. Ours are places in the
table below, the same for every version; a program holds the names.
"""

from __future__ import annotations

import zlib

from tvmagic.errors import WrongValueError, closest
from tvmagic.target.families import ELSEWHERE, families

# Intrinsics of every machine, without `llvm.` and without the types behind the names of overloaded ones.
_COMMON = """abs acos addressofreturnaddress adjust.trampoline annotation asin assume atan atan2 bitreverse bswap
canonicalize ceil clear_cache convert.from.fp16 convert.to.fp16 copysign cos cosh ctlz ctpop cttz debugtrap donothing exp
exp10 exp2 expect expect.with.probability fabs floor fma fmuladd fptosi.sat fptoui.sat fptrunc.round frameaddress frexp
fshl fshr get.active.lane.mask get.fpenv get.fpmode get.rounding init.trampoline invariant.end invariant.start is.constant
is.fpclass launder.invariant.group ldexp lifetime.end lifetime.start llrint llround load.relative log log10 log2 lrint
lround masked.compressstore masked.expandload masked.gather masked.load masked.scatter masked.store matrix.multiply
matrix.transpose maximum maximumnum maxnum memcpy memcpy.inline memmove memset memset.inline minimum minimumnum minnum modf
nearbyint objectsize pow powi prefetch ptr.annotation ptrmask read_register read_volatile_register readcyclecounter
readsteadycounter reset.fpenv reset.fpmode returnaddress rint round roundeven sadd.sat sadd.with.overflow scmp sdiv.fix
sdiv.fix.sat set.fpenv set.fpmode set.rounding sideeffect sin sincos sincospi sinh smax smin smul.fix smul.fix.sat
smul.with.overflow sponentry sqrt ssa.copy sshl.sat ssub.sat ssub.with.overflow stackprotector stackrestore stacksave
stepvector strip.invariant.group tan tanh thread.pointer threadlocal.address trap trunc uadd.sat uadd.with.overflow
ubsantrap ucmp udiv.fix udiv.fix.sat umax umin umul.fix umul.fix.sat umul.with.overflow ushl.sat usub.sat
usub.with.overflow va_copy va_end va_start var.annotation vector.deinterleave2 vector.extract vector.insert
vector.interleave2 vector.reduce.add vector.reduce.and vector.reduce.fadd vector.reduce.fmax vector.reduce.fmaximum
vector.reduce.fmin vector.reduce.fminimum vector.reduce.fmul vector.reduce.mul vector.reduce.or vector.reduce.smax
vector.reduce.smin vector.reduce.umax vector.reduce.umin vector.reduce.xor vector.reverse vector.splice vscale
write_register""".split()
# Those of them whose type is that of their result.
_TYPED_BY_RESULT = frozenset(
    """abs acos asin atan atan2 bitreverse bswap canonicalize ceil copysign cos cosh ctlz ctpop cttz exp exp10 exp2 fabs
    floor fma fmuladd fshl fshr log log10 log2 maximum maximumnum maxnum minimum minimumnum minnum nearbyint pow rint round
    roundeven sadd.sat sin sinh smax smin smul.fix smul.fix.sat sqrt sshl.sat ssub.sat tan tanh trunc uadd.sat umax umin
    umul.fix umul.fix.sat ushl.sat usub.sat""".split()
)
# Families of which any name is taken: those of architectures, and what is new or many.
_FAMILIES = frozenset(("experimental", "vp", *ELSEWHERE)).union(*(family.intrinsics for family in families()))


class LlvmNames:
    """What is known of intrinsics by their names."""

    def __init__(self) -> None:
        self.numbers = {name: number for number, name in enumerate(_COMMON, 1)}
        self.names = {number: f"llvm.{name}" for name, number in self.numbers.items()}

    def number_of(self, name: str) -> int:
        """The number of an intrinsic, whatever types follow its name."""
        parts = self._name_segments(name)
        for length in range(len(parts), 0, -1):
            number = self.numbers.get(".".join(parts[:length]))
            if number is not None:
                return number
        number = 1 << 24 | zlib.crc32(name.encode()) & 0xFFFFFF
        self.names[number] = name
        return number

    def name_of(self, number: int) -> str:
        """The intrinsic of a number that `number_of` has given."""
        found = self.names.get(number)
        if found is None:
            raise WrongValueError(
                f"{number} is the number of no LLVM intrinsic",
                hint="give the name of the intrinsic",
                code="codegen.unknown_intrinsic",
            )
        return found

    def checked(self, name: str) -> str:
        """`name`, which must be that of an intrinsic."""
        self._name_segments(name)
        return name

    def with_type(self, name: str, kind: str) -> str:
        """`name` with the type of its result behind it (`llvm.cttz.i32`) if it needs one and has none.

        LLVM adds it by itself, except to names that had fewer arguments in older versions of it, which it takes for those.
        """
        return f"{name}.{kind}" if name.removeprefix("llvm.") in _TYPED_BY_RESULT else name

    def _name_segments(self, name: str) -> list[str]:
        first, *parts = name.split(".")
        known = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
        if first == "llvm" and parts and (parts[0] in _FAMILIES or any(k in self.numbers for k in known)):
            return parts
        close = closest(name.removeprefix("llvm."), _COMMON)
        hint = "the names begin with `llvm.`" if close is None else f"did you mean `llvm.{close}`?"
        raise WrongValueError(
            f"`{name}` is not the name of an LLVM intrinsic", hint=hint, code="codegen.unknown_intrinsic"
        )


_names = LlvmNames()


def names() -> LlvmNames:
    """The table of this process."""
    return _names
