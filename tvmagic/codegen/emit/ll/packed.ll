; Call a function that Python registered.
define internal i32 @tvm.packed(ptr %name, ptr %values, ptr %codes, i32 %count) nounwind {
entry:
  %rt = load ptr, ptr @__tvmagic_runtime, align 8
  %none = icmp eq ptr %rt, null
  br i1 %none, label %alone, label %hosted
hosted:
  %slot = getelementptr inbounds ptr, ptr %rt, i64 4
  %f = load ptr, ptr %slot, align 8
  %r = call i32 %f(ptr %name, ptr %values, ptr %codes, i32 %count)
  ret i32 %r
alone:
  ret i32 -2
}
