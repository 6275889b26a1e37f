#!/bin/bash
# Kafka's tool of that name.
exec /opt/kafka/bin/kafka-run-class.sh kafka.tools.StorageTool "$@"
