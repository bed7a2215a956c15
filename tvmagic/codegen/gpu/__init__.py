"""Threads of a GPU and OpenCL C."""
