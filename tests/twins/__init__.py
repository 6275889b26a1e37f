"""The lane store twice, in memory and on a real Postgres: led side by side through the same history, and compared after each step."""
