"""The hand-written catalogue: one `NAME.py`, exactly as a designer writes it, with `NAME.spec.json`, a family."""
