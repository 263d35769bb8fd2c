"""BFCL v4: its own package, in an environment of its own, asked for entries and for grades."""
