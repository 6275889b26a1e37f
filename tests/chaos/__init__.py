"""Faults at random under load: `python -m chaos` from the folder of the tests."""
