"""nano: a small model that plays both roles, the grammar that its warm start is made from, and its held-out programs.

Nothing here imports torch until a model is built or measured.
"""
