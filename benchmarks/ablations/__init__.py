"""The parts of `nano_ablations.py`: arms, jobs that are done once, figures of a run, and the page of them all."""
