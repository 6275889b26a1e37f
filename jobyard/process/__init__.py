"""What every long-lived process needs: life cycle, clock, signals, logs."""
