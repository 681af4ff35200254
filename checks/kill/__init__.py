"""Processes that run turns are killed at random moments; what they have reported must be stored.

`talk` is the process that is killed, `verdict` what must hold of the threads it leaves, `rounds`
starts, kills and has another process judge. `python -m checks.kill` does this often.
"""
