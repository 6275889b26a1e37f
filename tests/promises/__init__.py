"""What users are promised, as objects that a test checks; and the work on which it is shown."""
