; Memory of a kernel, aligned to 64 bytes.
declare noalias ptr @aligned_alloc(i64, i64)
define internal noalias align 64 ptr @tvm.alloc(i64 %size) nounwind {
entry:
  %rt = load ptr, ptr @__tvmagic_runtime, align 8
  %none = icmp eq ptr %rt, null
  br i1 %none, label %alone, label %hosted
hosted:
  %slot = getelementptr inbounds ptr, ptr %rt, i64 1
  %f = load ptr, ptr %slot, align 8
  %r = call ptr %f(i64 %size)
  ret ptr %r
alone:
  %more = add i64 %size, 127
  %round = and i64 %more, -64
  %p = call ptr @aligned_alloc(i64 64, i64 %round)
  ret ptr %p
}
