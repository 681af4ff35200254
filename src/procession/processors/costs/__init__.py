"""What model calls cost, and what they may."""
