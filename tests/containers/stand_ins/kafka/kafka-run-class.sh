#!/bin/bash
# Runs a class of Kafka's: kafka-run-class.sh CLASS ARGUMENT…
# shellcheck disable=SC2086  several options
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1} -Djava.awt.headless=true \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true ${KAFKA_OPTS:-} -cp '/opt/kafka/libs/*' "$@"
