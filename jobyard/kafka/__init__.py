"""The one door to Kafka: typed wrappers that tell at their border what has failed, and hide what mends itself."""
