"""What was found, scored, written down and shown."""
