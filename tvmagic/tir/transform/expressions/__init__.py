"""Passes on expressions and single statements."""
