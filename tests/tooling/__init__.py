"""Tests of the set-up: the locks and the dev script."""
