; Run a parallel loop on the runtime's threads; alone in a program without the runtime.
define internal i32 @tvm.launch(ptr %body, ptr %closure, i64 %extent) nounwind {
entry:
  %rt = load ptr, ptr @__tvmagic_runtime, align 8
  %none = icmp eq ptr %rt, null
  br i1 %none, label %alone, label %hosted
hosted:
  %slot = getelementptr inbounds ptr, ptr %rt, i64 0
  %f = load ptr, ptr %slot, align 8
  %r = call i32 %f(ptr %body, ptr %closure, i64 %extent)
  ret i32 %r
alone:
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %run, label %done
run:
  %s = call i32 %body(i64 0, i64 %extent, ptr %closure, i32 0)
  ret i32 %s
done:
  ret i32 0
}
