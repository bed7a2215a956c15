; Machines without an instruction for spin loops.

@cycles_between_questions = constant i64 1048576

define void @pause() alwaysinline {
  fence seq_cst
  ret void
}
