"""One run, from the request to its end: the loop, the gate, and what they are made of."""
