"""Stores of vectors: in memory, in the file of a `SQLiteStore`, in PostgreSQL."""
