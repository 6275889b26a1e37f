"""The demo: the Python standard library's own source files, one job a file, through real Kafka and real Postgres."""
