"""The role of the agent: what stands before its first completion."""
