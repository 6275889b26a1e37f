"""The lane's decisions: books remember, steps decide, events are what changed. No I/O, no clock, no randomness."""
