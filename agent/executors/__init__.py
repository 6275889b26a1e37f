"""How a handler is run: on the event loop or in a thread."""
