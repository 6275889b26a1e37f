"""The agent: owns buckets, runs jobs, reports. It has no access to the database."""
