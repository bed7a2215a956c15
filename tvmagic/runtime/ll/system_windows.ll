; Windows: what the other parts call by the names of POSIX, in functions of kernel32 and of the C runtime.
;
; A mutex is a slim lock, which needs no more than its own word, as does a condition variable. A thread's number is its handle.

declare void @InitializeSRWLock(ptr)
declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare void @InitializeConditionVariable(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeAllConditionVariable(ptr)
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @WaitForSingleObject(ptr, i32)
declare i32 @CloseHandle(ptr)
declare i32 @SwitchToThread()
declare ptr @_aligned_malloc(i64, i64)
declare void @_aligned_free(ptr)

define i32 @pthread_mutex_init(ptr %mutex, ptr %attributes) {
  call void @InitializeSRWLock(ptr %mutex)
  ret i32 0
}

define i32 @pthread_mutex_lock(ptr %mutex) {
  call void @AcquireSRWLockExclusive(ptr %mutex)
  ret i32 0
}

define i32 @pthread_mutex_unlock(ptr %mutex) {
  call void @ReleaseSRWLockExclusive(ptr %mutex)
  ret i32 0
}

define i32 @pthread_cond_init(ptr %condition, ptr %attributes) {
  call void @InitializeConditionVariable(ptr %condition)
  ret i32 0
}

define i32 @pthread_cond_wait(ptr %condition, ptr %mutex) {
  %r = call i32 @SleepConditionVariableSRW(ptr %condition, ptr %mutex, i32 -1, i32 0)
  ret i32 0
}

define i32 @pthread_cond_broadcast(ptr %condition) {
  call void @WakeAllConditionVariable(ptr %condition)
  ret i32 0
}

define i32 @pthread_create(ptr %thread, ptr %attributes, ptr %run, ptr %argument) {
  %handle = call ptr @CreateThread(ptr null, i64 0, ptr %run, ptr %argument, i32 0, ptr null)
  store ptr %handle, ptr %thread, align 8
  %failed = icmp eq ptr %handle, null
  %r = zext i1 %failed to i32
  ret i32 %r
}

define i32 @pthread_join(i64 %thread, ptr %result) {
  %handle = inttoptr i64 %thread to ptr
  %a = call i32 @WaitForSingleObject(ptr %handle, i32 -1)
  %b = call i32 @CloseHandle(ptr %handle)
  ret i32 %a
}

define i32 @sched_yield() {
  %r = call i32 @SwitchToThread()
  ret i32 0
}

define i32 @posix_memalign(ptr %slot, i64 %alignment, i64 %size) {
  %p = call ptr @_aligned_malloc(i64 %size, i64 %alignment)
  store ptr %p, ptr %slot, align 8
  %failed = icmp eq ptr %p, null
  %r = zext i1 %failed to i32
  ret i32 %r
}

define void @memory_free(ptr %p) alwaysinline {
  call void @_aligned_free(ptr %p)
  ret void
}
