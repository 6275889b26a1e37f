"""What the leader remembers between two ticks."""
