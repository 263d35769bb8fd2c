"""A short soak: a hundred episodes whose clients behave badly leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[2] / "benchmarks" / "mcp_soak.py"


def test_after_the_reapers_time_nothing_is_left_of_a_hundred_misused_episodes():
    arguments = ["--episodes", "100", "--wave", "100", "--idle", "4"]
    done = subprocess.run([sys.executable, SOAK, *arguments], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["episodes"] == {"killed in mid-call": 10, "left half-open": 5, "never closed": 92, "closed": 8}
    assert [found[f"{name}_left_over"] for name in ("table", "connections", "descriptors", "threads", "children")] == [
        0
    ] * 5
    assert found["starts_anew"]
    assert "Traceback" not in done.stderr
