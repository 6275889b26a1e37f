"""The command line: one module a noun, joined in app.py."""
