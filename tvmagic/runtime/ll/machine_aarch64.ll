; AArch64: the hint of spin loops; the cycle counter runs at some 25 MHz.

@cycles_between_questions = constant i64 1048576
declare void @llvm.aarch64.hint(i32)

define void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
