"""What both sides of a wire or a table must agree on. Pure: msgspec and the standard library only, no I/O, no clock."""
