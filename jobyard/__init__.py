"""Jobyard: background jobs that run through Kafka and are answered for in Postgres."""
