; How many times 128 bits a scalable vector has. Not inlined: whoever calls it promises LLVM what is asked here.
declare i64 @llvm.vscale.i64()
define internal i64 @tvm.vscale() nounwind noinline {
  %n = call i64 @llvm.vscale.i64()
  ret i64 %n
}
