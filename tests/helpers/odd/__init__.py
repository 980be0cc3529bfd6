"""Calls of every public name with odd values."""
