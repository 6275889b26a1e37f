"""Real Postgres and real Kafka as child processes, for development, the demo and the tests."""
