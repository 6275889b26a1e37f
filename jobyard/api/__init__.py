"""What users hold: App, Handler, JobRequest, JobHandle, current_job."""
