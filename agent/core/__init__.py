"""The agent's decisions as a state machine without I/O: messages and the time in, actions out."""
