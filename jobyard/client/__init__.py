"""Jobs and commands on their way in, and look-ups on their way out."""
