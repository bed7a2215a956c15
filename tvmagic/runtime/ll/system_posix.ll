; Linux and macOS: memory from `posix_memalign` is given back to `free`. What else the parts call is there by its name.

declare void @free(ptr)

define void @memory_free(ptr %p) alwaysinline {
  call void @free(ptr %p)
  ret void
}
