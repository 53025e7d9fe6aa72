"""Reprise over HTTP: routes, problems, conventions."""
