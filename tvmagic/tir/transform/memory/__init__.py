"""Passes on buffers and allocations."""
