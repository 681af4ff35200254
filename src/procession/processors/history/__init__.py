"""Providers that differ, refuse or fail for a while: history made fit, calls made again."""
