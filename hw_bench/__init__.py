"""Everything that comes from hardware: GPU descriptions, published figures, the counter table, readers."""
