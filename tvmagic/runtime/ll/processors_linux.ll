; Linux: the workers run on other processors than the caller.
;
; A worker that is woken may be put on the caller's own processor and then waits for its turn there while another processor
; rests, for some milliseconds: longer than most parallel loops take. So the workers may run wherever the caller may, except
; where it is. That is said anew when the caller is on another processor than at its last region.
;
; A set of processors has 1024 bits, as in the C library. With more processors, or fewer than threads, the workers may run
; wherever the caller may.

@place = external global i32
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @__sched_cpucount(i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)

define void @keep_apart(ptr %threads, i32 %count) alwaysinline {
  %cpu = call i32 @sched_getcpu()
  %last = load i32, ptr @place, align 4
  %same = icmp eq i32 %cpu, %last
  br i1 %same, label %done, label %moved
moved:
  store i32 %cpu, ptr @place, align 4
  call void @send_away(ptr %threads, i32 %count, i32 %cpu)
  br label %done
done:
  ret void
}

define internal void @send_away(ptr %threads, i32 %count, i32 %cpu) noinline {
entry:
  %set = alloca [16 x i64], align 8
  %r = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  %failed = icmp ne i32 %r, 0
  %beyond = icmp ugt i32 %cpu, 1023
  %unknown = or i1 %failed, %beyond
  br i1 %unknown, label %done, label %known
known:
  %all = call i32 @__sched_cpucount(i64 128, ptr %set)
  %enough = icmp ugt i32 %all, %count
  br i1 %enough, label %without, label %each
without:
  %index = lshr i32 %cpu, 6
  %word = getelementptr i64, ptr %set, i32 %index
  %low = and i32 %cpu, 63
  %place = zext i32 %low to i64
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  %before = load i64, ptr %word, align 8
  %after = and i64 %before, %others
  store i64 %after, ptr %word, align 8
  br label %each
each:
  %i = phi i32 [ 0, %known ], [ 0, %without ], [ %next, %say ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %say, label %done
say:
  %at = getelementptr i64, ptr %threads, i32 %i
  %thread = load i64, ptr %at, align 8
  %x = call i32 @pthread_setaffinity_np(i64 %thread, i64 128, ptr %set)
  %next = add i32 %i, 1
  br label %each
done:
  ret void
}
