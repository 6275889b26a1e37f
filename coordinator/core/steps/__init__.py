"""What the leader does in a tick, one step a noun. Steps meet in books and events, and never call each other."""
