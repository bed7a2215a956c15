"""LLVM itself: optimization, assembly, caches and listings."""
