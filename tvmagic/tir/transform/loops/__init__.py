"""Passes on loops."""
