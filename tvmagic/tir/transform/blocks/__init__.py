"""Passes that lower blocks."""
