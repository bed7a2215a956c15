; Record a failure: its site and up to 15 values for the message. Returns the record's number, counted from 1, which is
; the status of the call. A record whose site is not 0 waits for its reader, maybe on another thread. Several iterations
; of a parallel loop may fail, and only one of their records is read; so if all wait, the oldest one is taken. The
; counter, behind the last record, says where to begin.
define internal i32 @tvm.fail(i64 %site, ptr %values, i64 %count) nounwind cold noinline {
entry:
  %counter = getelementptr inbounds [8193 x i64], ptr @__tvmagic_error, i64 0, i64 8192
  %turn = atomicrmw add ptr %counter, i64 1 seq_cst
  br label %search
search:
  %tries = phi i64 [ 0, %entry ], [ %tried, %next ]
  %at = add i64 %turn, %tries
  %number = and i64 %at, 511
  %first = shl i64 %number, 4
  %record = getelementptr inbounds [8193 x i64], ptr @__tvmagic_error, i64 0, i64 %first
  %old = cmpxchg ptr %record, i64 0, i64 %site seq_cst seq_cst
  %free = extractvalue { i64, i1 } %old, 1
  br i1 %free, label %values.begin, label %next
next:
  %tried = add nuw nsw i64 %tries, 1
  %all = icmp eq i64 %tried, 512
  br i1 %all, label %take, label %search
take:
  store i64 %site, ptr %record, align 8
  br label %values.begin
values.begin:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %values.begin ], [ %n, %loop ]
  %from = getelementptr inbounds i64, ptr %values, i64 %i
  %v = load i64, ptr %from, align 8
  %n = add nuw nsw i64 %i, 1
  %to = getelementptr inbounds i64, ptr %record, i64 %n
  store i64 %v, ptr %to, align 8
  %go = icmp slt i64 %n, %count
  br i1 %go, label %loop, label %done
done:
  %number32 = trunc i64 %number to i32
  %status = add nuw nsw i32 %number32, 1
  ret i32 %status
}
