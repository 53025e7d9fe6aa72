"""Everything that touches the world: event store, remote API, command line, importers, worker, wiring."""
