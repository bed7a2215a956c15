; Scratch memory of kernels.
;
; Blocks given back are kept in 16 slots, for the next call needs the same sizes and the system would have to clear
; fresh pages; those over 256 MiB are not kept. A block's size is in front of it.

@slots = global [16 x ptr] zeroinitializer, align 64
declare i32 @posix_memalign(ptr, i64, i64)
declare void @memory_free(ptr)

define ptr @alloc(i64 %size) {
entry:
  %slot = alloca ptr, align 8
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %place = getelementptr inbounds [16 x ptr], ptr @slots, i64 0, i64 %i
  %there = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %next, label %take
take:
  %p = atomicrmw xchg ptr %place, ptr null seq_cst
  %gone = icmp eq ptr %p, null
  br i1 %gone, label %next, label %fits
fits:
  %have = load i64, ptr %p, align 8
  %enough = icmp uge i64 %have, %size
  %half = lshr i64 %have, 2
  %close = icmp ule i64 %half, %size
  %good = and i1 %enough, %close
  br i1 %good, label %found, label %back
back:
  %c = cmpxchg ptr %place, ptr null, ptr %p seq_cst seq_cst
  %put = extractvalue { ptr, i1 } %c, 1
  br i1 %put, label %next, label %drop
drop:
  call void @memory_free(ptr %p)
  br label %next
next:
  %i1 = add i64 %i, 1
  %last = icmp eq i64 %i1, 16
  br i1 %last, label %fresh, label %look
fresh:
  %huge = icmp ugt i64 %size, 70368744177664
  br i1 %huge, label %failed, label %ask
ask:
  %total = add i64 %size, 64
  %r = call i32 @posix_memalign(ptr %slot, i64 64, i64 %total)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %failed, label %new
new:
  %m = load ptr, ptr %slot, align 8
  store i64 %size, ptr %m, align 8
  br label %found
found:
  %block = phi ptr [ %p, %fits ], [ %m, %new ]
  %data = getelementptr inbounds i8, ptr %block, i64 64
  ret ptr %data
failed:
  ret ptr null
}

define void @release(ptr %data) {
entry:
  %block = getelementptr inbounds i8, ptr %data, i64 -64
  %size = load i64, ptr %block, align 8
  %large = icmp ugt i64 %size, 268435456
  br i1 %large, label %drop, label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %place = getelementptr inbounds [16 x ptr], ptr @slots, i64 0, i64 %i
  %there = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %try, label %next
try:
  %c = cmpxchg ptr %place, ptr null, ptr %block seq_cst seq_cst
  %put = extractvalue { ptr, i1 } %c, 1
  br i1 %put, label %done, label %next
next:
  %i1 = add i64 %i, 1
  %last = icmp eq i64 %i1, 16
  br i1 %last, label %drop, label %look
drop:
  call void @memory_free(ptr %block)
  br label %done
done:
  ret void
}
