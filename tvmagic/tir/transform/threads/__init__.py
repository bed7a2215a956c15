"""Passes on threads: launches, barriers, reductions over threads."""
