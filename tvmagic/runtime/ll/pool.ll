; The thread pool.
;
; A region is a parallel loop that runs. Its caller publishes body, closure and extent, opens the region, takes
; chunks itself, closes the region when no chunk is left and waits for the workers that joined, not for those
; still asleep. A chunk is what is left over twice the number of threads (guided self-scheduling, Polychronopoulos and Kuck
; 1987), and never less than the extent over 32 times that number: threads that began late, or have slower iterations, end
; at the same time. A worker that finds nothing to do spins for some 50 microseconds (3000 rounds, each with a pause of
; some 40 cycles), then sleeps on a condition variable. Two orders make it safe: a worker counts itself in `active`
; before it looks whether the region is open, and the caller closes the region before it looks at `active` (all
; sequentially consistent). While a region runs, a second caller runs its loop alone. Where the system can be told, workers
; run on other processors than the caller (`processors_*.ll`; `place` is the caller's at its last region).

@generation = global i64 0
@open = global i64 0
@active = global i32 0
@next = global i64 0
@extent = global i64 0
@least = global i64 0
@share = global i64 0
@body = global ptr null
@closure = global ptr null
@status = global i32 0
@busy = global i32 0
@sleepers = global i32 0
@quit = global i32 0
@limit = global i32 0
@threads = global [1023 x i64] zeroinitializer
@place = global i32 -1
@mutex = global [16 x i64] zeroinitializer, align 64
@condition = global [16 x i64] zeroinitializer, align 64
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @sched_yield()
declare void @pause()
declare void @keep_apart(ptr, i32)
declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

define i32 @pool_init() {
  store atomic i32 0, ptr @busy seq_cst, align 4
  store atomic i32 0, ptr @active seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @quit seq_cst, align 4
  store atomic i64 0, ptr @open seq_cst, align 8
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @condition, ptr null)
  %r = or i32 %a, %b
  ret i32 %r
}

define i32 @pool_start(ptr %thread, i64 %number) {
  %arg = inttoptr i64 %number to ptr
  %r = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %arg)
  %index = sub i64 %number, 1
  %known = icmp ult i64 %index, 1023
  br i1 %known, label %keep, label %done
keep:
  %handle = load i64, ptr %thread, align 8
  %at = getelementptr [1023 x i64], ptr @threads, i64 0, i64 %index
  store i64 %handle, ptr %at, align 8
  br label %done
done:
  ret i32 %r
}

define void @pool_limit(i32 %workers) {
  store i32 -1, ptr @place, align 4
  store atomic i32 %workers, ptr @limit seq_cst, align 4
  ret void
}

define void @pool_stop() {
  store atomic i32 1, ptr @quit seq_cst, align 4
  %g = atomicrmw add ptr @generation, i64 1 seq_cst
  %a = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  %c = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define i32 @pool_join(i64 %thread) {
  %r = call i32 @pthread_join(i64 %thread, ptr null)
  ret i32 %r
}

define internal void @run_chunks(i32 %worker) {
entry:
  %body = load ptr, ptr @body, align 8
  %closure = load ptr, ptr @closure, align 8
  %extent = load i64, ptr @extent, align 8
  %least = load i64, ptr @least, align 8
  %share = load i64, ptr @share, align 8
  br label %more
more:
  %status = load atomic i32, ptr @status monotonic, align 4
  %stopped = icmp ne i32 %status, 0
  br i1 %stopped, label %done, label %look
look:
  %first = load atomic i64, ptr @next seq_cst, align 8
  br label %take
take:
  %begin = phi i64 [ %first, %look ], [ %there, %size ]
  %none = icmp sge i64 %begin, %extent
  br i1 %none, label %done, label %size
size:
  %rest = sub i64 %extent, %begin
  %part = udiv i64 %rest, %share
  %fair = call i64 @llvm.umax.i64(i64 %part, i64 %least)
  %chunk = call i64 @llvm.umin.i64(i64 %fair, i64 %rest)
  %end = add i64 %begin, %chunk
  %pair = cmpxchg ptr @next, i64 %begin, i64 %end seq_cst seq_cst
  %there = extractvalue { i64, i1 } %pair, 0
  %taken = extractvalue { i64, i1 } %pair, 1
  br i1 %taken, label %run, label %take
run:
  %r = call i32 %body(i64 %begin, i64 %end, ptr %closure, i32 %worker)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fail, label %more
fail:
  %old = cmpxchg ptr @status, i32 0, i32 %r seq_cst seq_cst
  br label %done
done:
  ret void
}

define internal ptr @worker(ptr %arg) {
entry:
  %number = ptrtoint ptr %arg to i64
  %me = trunc i64 %number to i32
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %now, %leave ]
  br label %spin
spin:
  %count = phi i32 [ 0, %idle ], [ %count1, %again ]
  %g = load atomic i64, ptr @generation seq_cst, align 8
  %fresh = icmp ne i64 %g, %seen
  br i1 %fresh, label %wake, label %again
again:
  call void @pause()
  %count1 = add i32 %count, 1
  %enough = icmp sgt i32 %count1, 3000
  br i1 %enough, label %sleep, label %spin
sleep:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %g1 = load atomic i64, ptr @generation seq_cst, align 8
  %fresh1 = icmp ne i64 %g1, %seen
  br i1 %fresh1, label %up, label %wait
wait:
  %w = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
up:
  %s1 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %wake
wake:
  %now = load atomic i64, ptr @generation seq_cst, align 8
  %q = load atomic i32, ptr @quit seq_cst, align 4
  %stop = icmp ne i32 %q, 0
  br i1 %stop, label %end, label %join
join:
  %a0 = atomicrmw add ptr @active, i32 1 seq_cst
  %o = load atomic i64, ptr @open seq_cst, align 8
  %there = icmp ne i64 %o, 0
  %most = load atomic i32, ptr @limit monotonic, align 4
  %mine = icmp sle i32 %me, %most
  %go = and i1 %there, %mine
  br i1 %go, label %work, label %leave
work:
  call void @run_chunks(i32 %me)
  br label %leave
leave:
  %a1 = atomicrmw sub ptr @active, i32 1 seq_cst
  br label %idle
end:
  ret ptr null
}

define i32 @launch(ptr %body, ptr %closure, i64 %extent) {
entry:
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %more, label %nothing
nothing:
  ret i32 0
more:
  %workers = load atomic i32, ptr @limit monotonic, align 4
  %single = icmp eq i64 %extent, 1
  %none = icmp eq i32 %workers, 0
  %alone = or i1 %single, %none
  br i1 %alone, label %serial, label %claim
claim:
  %c = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue { i32, i1 } %c, 1
  br i1 %got, label %region, label %serial
serial:
  %rs = call i32 %body(i64 0, i64 %extent, ptr %closure, i32 0)
  ret i32 %rs
region:
  store ptr %body, ptr @body, align 8
  store ptr %closure, ptr @closure, align 8
  store i64 %extent, ptr @extent, align 8
  %known = call i32 @llvm.umin.i32(i32 %workers, i32 1023)
  call void @keep_apart(ptr @threads, i32 %known)
  %w1 = add i32 %workers, 1
  %w2 = zext i32 %w1 to i64
  %share = mul i64 %w2, 2
  store i64 %share, ptr @share, align 8
  %parts = mul i64 %w2, 32
  %smallest = udiv i64 %extent, %parts
  %least = call i64 @llvm.umax.i64(i64 %smallest, i64 1)
  store i64 %least, ptr @least, align 8
  store atomic i32 0, ptr @status seq_cst, align 4
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  %g = atomicrmw add ptr @generation, i64 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  br label %work
work:
  call void @run_chunks(i32 0)
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %wait
wait:
  %count = phi i32 [ 0, %work ], [ %count1, %again ], [ 0, %yield ]
  %a = load atomic i32, ptr @active seq_cst, align 4
  %finished = icmp eq i32 %a, 0
  br i1 %finished, label %done, label %again
again:
  call void @pause()
  %count1 = add i32 %count, 1
  %long = icmp sgt i32 %count1, 2000
  br i1 %long, label %yield, label %wait
yield:
  %y = call i32 @sched_yield()
  br label %wait
done:
  %r = load atomic i32, ptr @status seq_cst, align 4
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret i32 %r
}
