"""Use cases over the domain, and the ports they need."""
