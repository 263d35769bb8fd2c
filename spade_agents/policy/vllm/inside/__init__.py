"""What runs in vLLM's process or beside it: nothing here imports the rest of the project."""
