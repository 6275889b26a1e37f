"""What tests of Jobyard and of its users need: the store in memory, clocks, fixtures."""
