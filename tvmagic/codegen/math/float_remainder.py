"""C's `fmod` as LLVM text, for machines without a C library.

LLVM's own code for `frem` on NVIDIA's GPUs is x - trunc(x / y) y, which is not exact: -0.0 and large quotients are wrong.
"""

from __future__ import annotations

from tvmagic.codegen.text.types import llvm_type
from tvmagic.ir import DataType

_FRACTION = {32: 23, 64: 52}  # bits


def fmod_text(symbol: str, scalar: DataType) -> str:
    """A function `symbol` of two floats of 32 or 64 bits: the exact remainder, with the sign of the first.

    The numbers are m 2^e with m of full length. Long division gives a bit of the quotient for each step of e, and what is
    left is a float again, perhaps a subnormal one.
    """
    kind, bits = llvm_type(scalar), scalar.bits
    fraction = _FRACTION[bits]
    hidden, infinity, sign = 1 << fraction, ((1 << (bits - 1 - fraction)) - 1) << fraction, 1 << (bits - 1)
    i, above = f"i{bits}", bits - 1 - fraction  # the zeros above a number of full length
    return f"""declare {i} @llvm.ctlz.{i}({i}, i1)
declare {i} @llvm.umin.{i}({i}, {i})
declare {i} @llvm.umax.{i}({i}, {i})
define internal {kind} @{symbol}({kind} %x, {kind} %y) nounwind willreturn memory(none) {{
entry:
  %xi = bitcast {kind} %x to {i}
  %yi = bitcast {kind} %y to {i}
  %sign = and {i} %xi, {sign}
  %xa = and {i} %xi, {sign - 1}
  %ya = and {i} %yi, {sign - 1}
  %by.zero = icmp eq {i} %ya, 0
  %no.number = icmp uge {i} %xa, {infinity}
  %y.nan = icmp ugt {i} %ya, {infinity}
  %bad.1 = or i1 %by.zero, %no.number
  %bad = or i1 %bad.1, %y.nan
  br i1 %bad, label %nan, label %numbers
nan:
  ret {kind} 0x7FF8000000000000
numbers:
  %less = icmp ult {i} %xa, %ya
  br i1 %less, label %same, label %lengths
same:
  ret {kind} %x
lengths:
  %xe.given = lshr {i} %xa, {fraction}
  %ye.given = lshr {i} %ya, {fraction}
  %xe.first = call {i} @llvm.umax.{i}({i} %xe.given, {i} 1)
  %ye.first = call {i} @llvm.umax.{i}({i} %ye.given, {i} 1)
  %x.small = icmp eq {i} %xe.given, 0
  %y.small = icmp eq {i} %ye.given, 0
  %x.hidden = select i1 %x.small, {i} 0, {i} {hidden}
  %y.hidden = select i1 %y.small, {i} 0, {i} {hidden}
  %x.fraction = and {i} %xa, {hidden - 1}
  %y.fraction = and {i} %ya, {hidden - 1}
  %xm.first = or {i} %x.fraction, %x.hidden
  %ym.first = or {i} %y.fraction, %y.hidden
  %x.zeros = call {i} @llvm.ctlz.{i}({i} %xm.first, i1 false)
  %y.zeros = call {i} @llvm.ctlz.{i}({i} %ym.first, i1 false)
  %x.shift = sub {i} %x.zeros, {above}
  %y.shift = sub {i} %y.zeros, {above}
  %xm = shl {i} %xm.first, %x.shift
  %ym = shl {i} %ym.first, %y.shift
  %xe = sub {i} %xe.first, %x.shift
  %ye = sub {i} %ye.first, %y.shift
  br label %step
step:
  %m = phi {i} [ %xm, %lengths ], [ %m.next, %more ]
  %e = phi {i} [ %xe, %lengths ], [ %e.next, %more ]
  %less.than.y = icmp ult {i} %m, %ym
  %m.less = sub {i} %m, %ym
  %rest = select i1 %less.than.y, {i} %m, {i} %m.less
  %last = icmp eq {i} %e, %ye
  br i1 %last, label %made, label %more
more:
  %m.next = shl {i} %rest, 1
  %e.next = sub {i} %e, 1
  br label %step
made:
  %below = icmp slt {i} %ye, 1
  %down.signed = sub {i} 1, %ye
  %down = select i1 %below, {i} %down.signed, {i} 0
  %lowered = lshr {i} %rest, %down
  %zeros = call {i} @llvm.ctlz.{i}({i} %lowered, i1 false)
  %lacking = sub {i} %zeros, {above}
  %room.signed = sub {i} %ye, 1
  %room = select i1 %below, {i} 0, {i} %room.signed
  %up = call {i} @llvm.umin.{i}({i} %lacking, {i} %room)
  %raised = shl {i} %lowered, %up
  %exponent = sub {i} %room, %up
  %head = shl {i} %exponent, {fraction}
  %magnitude = add {i} %head, %raised
  %nothing = icmp eq {i} %rest, 0
  %found = select i1 %nothing, {i} 0, {i} %magnitude
  %signed = or {i} %found, %sign
  %result = bitcast {i} %signed to {kind}
  ret {kind} %result
}}
"""
