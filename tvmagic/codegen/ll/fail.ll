; Keep the first failure: its site and up to 15 values for the message.
define internal void @tvm.fail(i64 %site, ptr %values, i64 %count) nounwind cold noinline {
entry:
  %old = cmpxchg ptr @__tvmagic_error, i64 0, i64 %site seq_cst seq_cst
  %first = extractvalue { i64, i1 } %old, 1
  %some = icmp sgt i64 %count, 0
  %copy = and i1 %first, %some
  br i1 %copy, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %loop ]
  %from = getelementptr inbounds i64, ptr %values, i64 %i
  %v = load i64, ptr %from, align 8
  %n = add nuw nsw i64 %i, 1
  %to = getelementptr inbounds [16 x i64], ptr @__tvmagic_error, i64 0, i64 %n
  store i64 %v, ptr %to, align 8
  %go = icmp slt i64 %n, %count
  br i1 %go, label %loop, label %done
done:
  ret void
}
