; Where the heap ends. LLVM 22.1 stores what it has truncated to memory, even if a global of WebAssembly is meant; an
; argument of a function is not truncated.
@__heap_pointer = external addrspace(1) global i32
define internal void @tvm.set_heap(i32 %place) noinline nounwind {
entry:
  store i32 %place, ptr addrspace(1) @__heap_pointer
  ret void
}
