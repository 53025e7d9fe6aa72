"""What a store promises, over every database."""
