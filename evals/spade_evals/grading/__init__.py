"""Grading: answers found in text, and graders of others run in a jail."""
