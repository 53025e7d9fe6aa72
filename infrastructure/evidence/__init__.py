"""A session's whole history as a file that others can check, with nothing of Reprise installed."""
