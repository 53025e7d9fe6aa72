"""Tests of the transcript importers."""
