; x86: the pause of spin loops; the cycle counter runs at the speed of the clock.

@cycles_between_questions = constant i64 134217728
declare void @llvm.x86.sse2.pause()

define void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
