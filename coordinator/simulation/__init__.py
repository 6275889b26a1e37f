"""The real core of the coordinator and the real core of the agent, against simulated time, Kafka, Master DB, handlers and faults. All of it from one seed."""
