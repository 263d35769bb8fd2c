"""The designer's role: prompts, corpus, memory, and the way from a completion to a certified environment."""
