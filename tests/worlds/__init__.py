"""Real processes for tests: coordinators and agents by the command line, on services of the session or of their own."""
