"""Postgres and Kafka in containers, and with TLS and rights."""
