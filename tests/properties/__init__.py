"""What holds for every history, whatever is reported in whatever order."""
