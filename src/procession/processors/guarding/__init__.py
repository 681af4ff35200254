"""Guards that look for something in texts: by rules, locally, and with a judge."""
