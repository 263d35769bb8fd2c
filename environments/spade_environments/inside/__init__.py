"""What runs in the episode's child process: standard library only."""
