"""Evaluation: held-out environments, the same plays for every policy."""
