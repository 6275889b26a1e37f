"""The real core, tick and take-over, and the real core of agents, in a simulated world: one queue of events, one source of chance, faults by a seed."""
