"""What destinations do with deltas."""
