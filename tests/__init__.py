"""Tests of Reprise."""
