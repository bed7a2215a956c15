; Give memory back.
declare void @free(ptr)
define internal void @tvm.free(ptr %p) nounwind {
entry:
  %rt = load ptr, ptr @__tvmagic_runtime, align 8
  %none = icmp eq ptr %rt, null
  br i1 %none, label %alone, label %hosted
hosted:
  %slot = getelementptr inbounds ptr, ptr %rt, i64 2
  %f = load ptr, ptr %slot, align 8
  call void %f(ptr %p)
  ret void
alone:
  call void @free(ptr %p)
  ret void
}
