"""Benchmarks: `./dev bench`. Each figure stands beside its floor and its bar; bars are not part of the tests."""
