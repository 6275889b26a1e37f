"""The one door to Kafka: nothing else imports confluent_kafka."""
