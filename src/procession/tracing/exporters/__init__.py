"""Where traces go (O-055)."""
