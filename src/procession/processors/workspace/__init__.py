"""What a model is told of the files and skills that it works with."""
