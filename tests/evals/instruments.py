"""The instrument checks: other checkers get environments of their own, then our suites are held against them.

    python tests/evals/instruments.py [--data DIR] [PYTEST_ARGUMENT]...

DIR holds ACEBench's data. Exit code: 0 all hold, 1 one does not, 3 all that could run do, and without DIR ACEBench's
could not. `make test-eval DATA=DIR` runs this; make itself ends with 2 whatever a command of its ended with.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

SPADE_EVAL = str(Path(sys.executable).with_name("spade-eval"))
TESTS = ("tests/evals", "-m", "slow or not slow", "-rs")


def main() -> int:
    """Run them; what a person reads last is what was not run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--data", type=Path, help="folder with ACEBench's data")
    given, others = parser.parse_known_args()
    if given.data is not None and not given.data.is_dir():
        parser.error(f"there is no folder {given.data}; give the one that holds ACEBench's data")
    for suite in ("bfcl_v4",) if given.data is None else ("bfcl_v4", "acebench"):
        if code := subprocess.run([SPADE_EVAL, "setup", suite], check=False).returncode:
            return code
    known = os.environ | {"SPADE_EVAL_DATA": "" if given.data is None else str(given.data)}
    code = subprocess.run([sys.executable, "-m", "pytest", *TESTS, *others], env=known, check=False).returncode
    if code == 0 and given.data is None:
        print("no --data DIR was given: ACEBench's checks count as not run", file=sys.stderr)
        return 3
    return code


if __name__ == "__main__":
    sys.exit(main())
