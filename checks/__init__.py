"""The gate: every check a change must pass, behind one command (`python -m checks`)."""
