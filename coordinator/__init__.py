"""The coordinator: leads lanes. A thin shell (the tick) around a pure core."""
