"""Sudare."""
