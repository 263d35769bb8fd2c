"""ACEBench: calls written in prose, parsed as syntax and never run."""
