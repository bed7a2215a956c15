; What LLVM calls where the machine has no instruction: conversions of 16-bit floats, arithmetic and conversions of
; 128-bit integers, integer powers. The names and meanings are those of compiler-rt and libgcc.
;
; A function here must not need itself: 16-bit floats are handled by their bits, and no i128 is divided or converted.
; The definitions are weak, so that an object file which is linked with a compiler's own library takes either.

declare i128 @llvm.ctlz.i128(i128, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

; ---------------------------------------------------------------- float16

define weak float @__extendhfsf2(half %x) nounwind {
  %h = bitcast half %x to i16
  %bits = zext i16 %h to i32
  %top = shl i32 %bits, 16
  %sign = and i32 %top, -2147483648
  %size = and i32 %bits, 32767
  %shifted = shl i32 %size, 13
  ; normal numbers: the exponent's bias grows by 112
  %normal = add i32 %shifted, 939524096
  ; subnormal numbers, multiples of 2^-24: put them below 0.5, whose last bit is 2^-24 too
  %above = or i32 %size, 1056964608
  %above.f = bitcast i32 %above to float
  %small.f = fsub float %above.f, 0.5
  %small = bitcast float %small.f to i32
  %is.small = icmp ult i32 %size, 1024
  %finite = select i1 %is.small, i32 %small, i32 %normal
  ; infinity keeps its mantissa of zero; NaN becomes quiet
  %special = or i32 %shifted, 2139095040
  %quiet = or i32 %special, 4194304
  %is.nan = icmp ugt i32 %size, 31744
  %not.finite = select i1 %is.nan, i32 %quiet, i32 %special
  %is.special = icmp uge i32 %size, 31744
  %chosen = select i1 %is.special, i32 %not.finite, i32 %finite
  %signed = or i32 %chosen, %sign
  %r = bitcast i32 %signed to float
  ret float %r
}

define internal i16 @half_of(float %x) nounwind {
  %bits = bitcast float %x to i32
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %size = and i32 %bits, 2147483647
  ; normal numbers: to even on a tie; what rounds up beyond 65504 becomes infinity by itself
  %less = sub i32 %size, 939524096
  %last = lshr i32 %less, 13
  %tie = and i32 %last, 1
  %half = add i32 %less, 4095
  %sum = add i32 %half, %tie
  %normal = lshr i32 %sum, 13
  ; numbers below 2^-14: adding 0.5 rounds to its last bit, 2^-24
  %size.f = bitcast i32 %size to float
  %above.f = fadd float %size.f, 0.5
  %above = bitcast float %above.f to i32
  %small = sub i32 %above, 1056964608
  %is.small = icmp ult i32 %size, 947912704
  %finite = select i1 %is.small, i32 %small, i32 %normal
  %large = icmp uge i32 %size, 1199570944
  %bounded = select i1 %large, i32 31744, i32 %finite
  %payload = lshr i32 %size, 13
  %kept = and i32 %payload, 1023
  %nan = or i32 %kept, 32256
  %is.nan = icmp ugt i32 %size, 2139095040
  %chosen = select i1 %is.nan, i32 %nan, i32 %bounded
  %signed = or i32 %chosen, %sign
  %r = trunc i32 %signed to i16
  ret i16 %r
}

; A double as a float rounded to odd: rounding it once more, to fewer bits, does no harm.
define internal float @to_odd(double %x) nounwind {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %size.back = call double @llvm.fabs.f64(double %back)
  %size = call double @llvm.fabs.f64(double %x)
  %far = fcmp ogt double %size.back, %size
  %one = zext i1 %far to i32
  %down = sub i32 %bits, %one
  %inexact = fcmp one double %back, %x
  %odd = zext i1 %inexact to i32
  %chosen = or i32 %down, %odd
  %r = bitcast i32 %chosen to float
  ret float %r
}

define weak half @__truncsfhf2(float %x) nounwind {
  %bits = call i16 @half_of(float %x)
  %r = bitcast i16 %bits to half
  ret half %r
}

define weak half @__truncdfhf2(double %x) nounwind {
  %odd = call float @to_odd(double %x)
  %bits = call i16 @half_of(float %odd)
  %r = bitcast i16 %bits to half
  ret half %r
}

; ---------------------------------------------------------------- bfloat16

define weak float @__extendbfsf2(bfloat %x) nounwind {
  %h = bitcast bfloat %x to i16
  %bits = zext i16 %h to i32
  %top = shl i32 %bits, 16
  %r = bitcast i32 %top to float
  ret float %r
}

define internal i16 @bfloat_of(float %x) nounwind {
  %bits = bitcast float %x to i32
  %top = lshr i32 %bits, 16
  %tie = and i32 %top, 1
  %half = add i32 %bits, 32767
  %sum = add i32 %half, %tie
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %top, 64
  %is.nan = fcmp uno float %x, %x
  %chosen = select i1 %is.nan, i32 %quiet, i32 %rounded
  %r = trunc i32 %chosen to i16
  ret i16 %r
}

define weak bfloat @__truncsfbf2(float %x) nounwind {
  %bits = call i16 @bfloat_of(float %x)
  %r = bitcast i16 %bits to bfloat
  ret bfloat %r
}

define weak bfloat @__truncdfbf2(double %x) nounwind {
  %odd = call float @to_odd(double %x)
  %bits = call i16 @bfloat_of(float %odd)
  %r = bitcast i16 %bits to bfloat
  ret bfloat %r
}

; ---------------------------------------------------------------- products, quotients, shifts of 128 bits

define internal i128 @product64(i64 %a, i64 %b) nounwind {
  %a0 = and i64 %a, 4294967295
  %a1 = lshr i64 %a, 32
  %b0 = and i64 %b, 4294967295
  %b1 = lshr i64 %b, 32
  %low = mul i64 %a0, %b0
  %mid1 = mul i64 %a1, %b0
  %mid2 = mul i64 %a0, %b1
  %high = mul i64 %a1, %b1
  %carry0 = lshr i64 %low, 32
  %mid1.low = and i64 %mid1, 4294967295
  %mid2.low = and i64 %mid2, 4294967295
  %sum1 = add i64 %carry0, %mid1.low
  %sum = add i64 %sum1, %mid2.low
  %sum.low = shl i64 %sum, 32
  %low.low = and i64 %low, 4294967295
  %r0 = or i64 %sum.low, %low.low
  %carry1 = lshr i64 %sum, 32
  %mid1.high = lshr i64 %mid1, 32
  %mid2.high = lshr i64 %mid2, 32
  %h1 = add i64 %high, %mid1.high
  %h2 = add i64 %h1, %mid2.high
  %r1 = add i64 %h2, %carry1
  %r = call i128 @joined(i64 %r0, i64 %r1)
  ret i128 %r
}

define internal i128 @joined(i64 %low, i64 %high) nounwind alwaysinline {
  %l = zext i64 %low to i128
  %h = zext i64 %high to i128
  %up = shl i128 %h, 64
  %r = or i128 %up, %l
  ret i128 %r
}

define weak i128 @__multi3(i128 %a, i128 %b) nounwind {
  %a0 = trunc i128 %a to i64
  %b0 = trunc i128 %b to i64
  %a.up = lshr i128 %a, 64
  %b.up = lshr i128 %b, 64
  %a1 = trunc i128 %a.up to i64
  %b1 = trunc i128 %b.up to i64
  %low = call i128 @product64(i64 %a0, i64 %b0)
  %cross1 = mul i64 %a1, %b0
  %cross2 = mul i64 %a0, %b1
  %cross = add i64 %cross1, %cross2
  %above = call i128 @joined(i64 0, i64 %cross)
  %r = add i128 %low, %above
  ret i128 %r
}

define internal { i128, i128 } @divided(i128 %n, i128 %d) nounwind {
entry:
  %both = or i128 %n, %d
  %both.up = lshr i128 %both, 64
  %narrow = icmp eq i128 %both.up, 0
  br i1 %narrow, label %short, label %wide
short:
  %n64 = trunc i128 %n to i64
  %d64 = trunc i128 %d to i64
  %q64 = udiv i64 %n64, %d64
  %r64 = urem i64 %n64, %d64
  %q.short = zext i64 %q64 to i128
  %r.short = zext i64 %r64 to i128
  br label %done
wide:
  %less = icmp ult i128 %n, %d
  br i1 %less, label %done, label %long
long:
  ; one bit of the quotient at a time, from where the divisor's first bit is below that of the dividend
  %n.zeros = call i128 @llvm.ctlz.i128(i128 %n, i1 false)
  %d.zeros = call i128 @llvm.ctlz.i128(i128 %d, i1 false)
  %first = sub i128 %d.zeros, %n.zeros
  %d.first = shl i128 %d, %first
  br label %bit
bit:
  %i = phi i128 [ %first, %long ], [ %i1, %bit ]
  %rest = phi i128 [ %n, %long ], [ %rest1, %bit ]
  %step = phi i128 [ %d.first, %long ], [ %step1, %bit ]
  %q = phi i128 [ 0, %long ], [ %q2, %bit ]
  %fits = icmp uge i128 %rest, %step
  %taken = select i1 %fits, i128 %step, i128 0
  %rest1 = sub i128 %rest, %taken
  %one = zext i1 %fits to i128
  %q1 = shl i128 %q, 1
  %q2 = or i128 %q1, %one
  %step1 = lshr i128 %step, 1
  %last = icmp eq i128 %i, 0
  %i1 = sub i128 %i, 1
  br i1 %last, label %done, label %bit
done:
  %quotient = phi i128 [ %q.short, %short ], [ 0, %wide ], [ %q2, %bit ]
  %remainder = phi i128 [ %r.short, %short ], [ %n, %wide ], [ %rest1, %bit ]
  %pair = insertvalue { i128, i128 } poison, i128 %quotient, 0
  %both.parts = insertvalue { i128, i128 } %pair, i128 %remainder, 1
  ret { i128, i128 } %both.parts
}

define internal i128 @size_of(i128 %x) nounwind alwaysinline {
  %sign = ashr i128 %x, 127
  %flipped = xor i128 %x, %sign
  %r = sub i128 %flipped, %sign
  ret i128 %r
}

define internal i128 @with_sign(i128 %x, i128 %of) nounwind alwaysinline {
  %sign = ashr i128 %of, 127
  %flipped = xor i128 %x, %sign
  %r = sub i128 %flipped, %sign
  ret i128 %r
}

define weak i128 @__udivti3(i128 %n, i128 %d) nounwind {
  %both = call { i128, i128 } @divided(i128 %n, i128 %d)
  %r = extractvalue { i128, i128 } %both, 0
  ret i128 %r
}

define weak i128 @__umodti3(i128 %n, i128 %d) nounwind {
  %both = call { i128, i128 } @divided(i128 %n, i128 %d)
  %r = extractvalue { i128, i128 } %both, 1
  ret i128 %r
}

define weak i128 @__udivmodti4(i128 %n, i128 %d, ptr %rest) nounwind {
entry:
  %both = call { i128, i128 } @divided(i128 %n, i128 %d)
  %q = extractvalue { i128, i128 } %both, 0
  %m = extractvalue { i128, i128 } %both, 1
  %none = icmp eq ptr %rest, null
  br i1 %none, label %done, label %keep
keep:
  store i128 %m, ptr %rest, align 8
  br label %done
done:
  ret i128 %q
}

define weak i128 @__divti3(i128 %n, i128 %d) nounwind {
  %n.size = call i128 @size_of(i128 %n)
  %d.size = call i128 @size_of(i128 %d)
  %both = call { i128, i128 } @divided(i128 %n.size, i128 %d.size)
  %q = extractvalue { i128, i128 } %both, 0
  %signs = xor i128 %n, %d
  %r = call i128 @with_sign(i128 %q, i128 %signs)
  ret i128 %r
}

define weak i128 @__modti3(i128 %n, i128 %d) nounwind {
  %n.size = call i128 @size_of(i128 %n)
  %d.size = call i128 @size_of(i128 %d)
  %both = call { i128, i128 } @divided(i128 %n.size, i128 %d.size)
  %m = extractvalue { i128, i128 } %both, 1
  %r = call i128 @with_sign(i128 %m, i128 %n)
  ret i128 %r
}

define weak i128 @__divmodti4(i128 %n, i128 %d, ptr %rest) nounwind {
  %q = call i128 @__divti3(i128 %n, i128 %d)
  %m = call i128 @__modti3(i128 %n, i128 %d)
  store i128 %m, ptr %rest, align 8
  ret i128 %q
}

define weak i128 @__ashlti3(i128 %x, i32 %by) nounwind {
  %n = zext i32 %by to i128
  %r = shl i128 %x, %n
  ret i128 %r
}

define weak i128 @__lshrti3(i128 %x, i32 %by) nounwind {
  %n = zext i32 %by to i128
  %r = lshr i128 %x, %n
  ret i128 %r
}

define weak i128 @__ashrti3(i128 %x, i32 %by) nounwind {
  %n = zext i32 %by to i128
  %r = ashr i128 %x, %n
  ret i128 %r
}

; ---------------------------------------------------------------- 128-bit integers and floats

; The first 64 significant bits of %x, the last of them set if any bit below is, and how many bits that is shifted by.
define internal { i64, i64 } @leading(i128 %x) nounwind alwaysinline {
  %up = lshr i128 %x, 64
  %high = trunc i128 %up to i64
  %zeros = call i64 @llvm.ctlz.i64(i64 %high, i1 false)
  %shift = sub i64 64, %zeros
  %by = zext i64 %shift to i128
  %moved = lshr i128 %x, %by
  %back = shl i128 %moved, %by
  %lost = icmp ne i128 %back, %x
  %sticky = zext i1 %lost to i64
  %bits = trunc i128 %moved to i64
  %all = or i64 %bits, %sticky
  %pair = insertvalue { i64, i64 } poison, i64 %all, 0
  %r = insertvalue { i64, i64 } %pair, i64 %shift, 1
  ret { i64, i64 } %r
}

define weak double @__floatuntidf(i128 %x) nounwind {
  %lead = call { i64, i64 } @leading(i128 %x)
  %bits = extractvalue { i64, i64 } %lead, 0
  %shift = extractvalue { i64, i64 } %lead, 1
  %value = uitofp i64 %bits to double
  %exponent = add i64 %shift, 1023
  %power.bits = shl i64 %exponent, 52
  %power = bitcast i64 %power.bits to double
  %r = fmul double %value, %power
  ret double %r
}

define weak float @__floatuntisf(i128 %x) nounwind {
  %lead = call { i64, i64 } @leading(i128 %x)
  %bits = extractvalue { i64, i64 } %lead, 0
  %shift = extractvalue { i64, i64 } %lead, 1
  %value = uitofp i64 %bits to float
  %short = trunc i64 %shift to i32
  %exponent = add i32 %short, 127
  %power.bits = shl i32 %exponent, 23
  %power = bitcast i32 %power.bits to float
  %r = fmul float %value, %power
  ret float %r
}

define weak double @__floattidf(i128 %x) nounwind {
  %size = call i128 @size_of(i128 %x)
  %value = call double @__floatuntidf(i128 %size)
  %minus = fneg double %value
  %negative = icmp slt i128 %x, 0
  %r = select i1 %negative, double %minus, double %value
  ret double %r
}

define weak float @__floattisf(i128 %x) nounwind {
  %size = call i128 @size_of(i128 %x)
  %value = call float @__floatuntisf(i128 %size)
  %minus = fneg float %value
  %negative = icmp slt i128 %x, 0
  %r = select i1 %negative, float %minus, float %value
  ret float %r
}

; Integers that a double does not hold exactly are infinite as float16, so nothing is rounded twice.
define internal half @half_of_wide(i128 %x, i1 %negative) nounwind {
  %value = call double @__floatuntidf(i128 %x)
  %minus = fneg double %value
  %signed = select i1 %negative, double %minus, double %value
  %r = call half @__truncdfhf2(double %signed)
  ret half %r
}

define weak half @__floatuntihf(i128 %x) nounwind {
  %r = call half @half_of_wide(i128 %x, i1 false)
  ret half %r
}

define weak half @__floattihf(i128 %x) nounwind {
  %size = call i128 @size_of(i128 %x)
  %negative = icmp slt i128 %x, 0
  %r = call half @half_of_wide(i128 %size, i1 %negative)
  ret half %r
}

; The integer part of a number that is not negative. What is no number or too large gives some integer.
define weak i128 @__fixunsdfti(double %x) nounwind {
  %scaled = fmul double %x, 0x3BF0000000000000
  %up = fptoui double %scaled to i64
  %high = freeze i64 %up
  %back = uitofp i64 %high to double
  %above = fmul double %back, 0x43F0000000000000
  %rest = fsub double %x, %above
  %down = fptoui double %rest to i64
  %low = freeze i64 %down
  %r = call i128 @joined(i64 %low, i64 %high)
  ret i128 %r
}

define weak i128 @__fixdfti(double %x) nounwind {
  %size = call double @llvm.fabs.f64(double %x)
  %whole = call i128 @__fixunsdfti(double %size)
  %minus = sub i128 0, %whole
  %negative = fcmp olt double %x, 0.0
  %r = select i1 %negative, i128 %minus, i128 %whole
  ret i128 %r
}

define weak i128 @__fixunssfti(float %x) nounwind {
  %wide = fpext float %x to double
  %r = call i128 @__fixunsdfti(double %wide)
  ret i128 %r
}

define weak i128 @__fixsfti(float %x) nounwind {
  %wide = fpext float %x to double
  %r = call i128 @__fixdfti(double %wide)
  ret i128 %r
}

define weak i128 @__fixunshfti(half %x) nounwind {
  %single = call float @__extendhfsf2(half %x)
  %r = call i128 @__fixunssfti(float %single)
  ret i128 %r
}

define weak i128 @__fixhfti(half %x) nounwind {
  %single = call float @__extendhfsf2(half %x)
  %r = call i128 @__fixsfti(float %single)
  ret i128 %r
}

; ---------------------------------------------------------------- integer powers

define weak double @__powidf2(double %x, i32 %n) nounwind {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %count = select i1 %negative, i32 %minus, i32 %n
  br label %bit
bit:
  %left = phi i32 [ %count, %entry ], [ %left1, %bit ]
  %square = phi double [ %x, %entry ], [ %square1, %bit ]
  %product = phi double [ 1.0, %entry ], [ %product1, %bit ]
  %odd = trunc i32 %left to i1
  %more = fmul double %product, %square
  %product1 = select i1 %odd, double %more, double %product
  %square1 = fmul double %square, %square
  %left1 = lshr i32 %left, 1
  %last = icmp eq i32 %left1, 0
  br i1 %last, label %done, label %bit
done:
  %inverse = fdiv double 1.0, %product1
  %r = select i1 %negative, double %inverse, double %product1
  ret double %r
}

define weak float @__powisf2(float %x, i32 %n) nounwind {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %count = select i1 %negative, i32 %minus, i32 %n
  br label %bit
bit:
  %left = phi i32 [ %count, %entry ], [ %left1, %bit ]
  %square = phi float [ %x, %entry ], [ %square1, %bit ]
  %product = phi float [ 1.0, %entry ], [ %product1, %bit ]
  %odd = trunc i32 %left to i1
  %more = fmul float %product, %square
  %product1 = select i1 %odd, float %more, float %product
  %square1 = fmul float %square, %square
  %left1 = lshr i32 %left, 1
  %last = icmp eq i32 %left1, 0
  br i1 %last, label %done, label %bit
done:
  %inverse = fdiv float 1.0, %product1
  %r = select i1 %negative, float %inverse, float %product1
  ret float %r
}
