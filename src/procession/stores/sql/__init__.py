"""The domains of a store in SQL that SQLite and PostgreSQL both understand."""
