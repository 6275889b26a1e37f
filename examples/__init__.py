"""Programs that the documentation shows and tests run."""
