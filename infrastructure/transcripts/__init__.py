"""Reads the transcripts coding agents leave on disk into the neutral facts of `application.transcript`."""
