"""Objects instead of text: forms of schemas, JSON as it comes, and the processor that reads it."""
