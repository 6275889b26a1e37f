"""What must hold after every step: one module for each kind of evidence."""
