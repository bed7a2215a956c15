"""Mathematical functions as LLVM code."""
