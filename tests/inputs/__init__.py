"""Input that is wrong, for every way in."""
