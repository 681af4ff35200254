"""Which tools a model is offered, and which of its calls it sees again."""
