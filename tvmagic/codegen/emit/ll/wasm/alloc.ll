; Memory of a kernel, aligned to 64 bytes: from where the heap ends on. What is allocated last is freed first.
declare i32 @llvm.wasm.memory.size.i32(i32)
declare i32 @llvm.wasm.memory.grow.i32(i32, i32)
define internal noalias align 64 ptr @tvm.alloc(i64 %size) nounwind {
entry:
  %heap = load i32, ptr addrspace(1) @__heap_pointer
  %start = zext i32 %heap to i64
  %sum = add i64 %start, %size
  %more = add i64 %sum, 63
  %end = and i64 %more, -64
  %large = icmp ugt i64 %end, 4294901760
  br i1 %large, label %none, label %some
some:
  %last = add i64 %end, 65535
  %pages.wide = lshr i64 %last, 16
  %pages = trunc i64 %pages.wide to i32
  %there = call i32 @llvm.wasm.memory.size.i32(i32 0)
  %enough = icmp ule i32 %pages, %there
  br i1 %enough, label %done, label %grow
grow:
  %missing = sub i32 %pages, %there
  %before = call i32 @llvm.wasm.memory.grow.i32(i32 0, i32 %missing)
  %failed = icmp eq i32 %before, -1
  br i1 %failed, label %none, label %done
done:
  %next = trunc i64 %end to i32
  call void @tvm.set_heap(i32 %next)
  %p = inttoptr i32 %heap to ptr
  ret ptr %p
none:
  ret ptr null
}
