"""Benchmarks, run by `./dev bench`: each figure beside its floor and its bar; the tests have no bars."""
