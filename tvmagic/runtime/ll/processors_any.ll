; The other systems: where workers run is theirs to decide.

define void @keep_apart(ptr %threads, i32 %count) alwaysinline {
  ret void
}
