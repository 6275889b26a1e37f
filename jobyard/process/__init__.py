"""What every long-lived process of Jobyard needs: life cycle, signals, clocks, logs."""
