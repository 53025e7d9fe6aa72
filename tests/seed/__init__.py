"""The seed documents, test by test, under their names."""
