"""Numbers: a model's own forward in the arithmetic it claims, and what is compared with it."""
