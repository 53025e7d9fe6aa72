"""Reprise over HTTP."""
