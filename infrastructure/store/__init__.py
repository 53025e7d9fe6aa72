"""The event store: one behaviour over several databases."""
