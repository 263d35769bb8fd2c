"""A command that is told to end closes what it opened: processes, folders, and a log that can be gone on with."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spade_evals.cli import main
from spade_evals.cli.stopping import TERMINATED
from spade_evals.log import EvalLog
from tests.agents.cli.test_serve import descendants

READY = """
print('{"ready": true}', file=open("main.out", "w"), flush=True)
open("main.in").read()
"""
# A shell's background job, as this may be one, ignores Ctrl-C, and so would what it starts.
MINDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
HOLDER = f"""{MINDING}
import asyncio, sys
from contextlib import aclosing
from pathlib import Path
from spade_evals.cli.stopping import run_to_end
from spade_evals.grading.conversing import JailedScript

async def hold():
    async with aclosing(JailedScript(script=Path(sys.argv[1]))) as jailed:
        await jailed.main()
        print("ready", flush=True)
        await asyncio.Event().wait()

run_to_end(hold())
"""
COMMAND = f"{MINDING} import sys; from spade_evals.cli import main; main(sys.argv[1:])"


@contextmanager
def started(program, *arguments, scratch) -> Iterator[subprocess.Popen[str]]:
    """A program whose temporary folders lie below `scratch`; afterwards it and all that it started are gone."""
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(scratch)}, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process, number) -> None:
    """Send the signal, and wait for the end of the process and of all that it had started."""
    ends = [os.pidfd_open(child) for child in descendants(process.pid)]
    assert ends
    process.send_signal(number)
    process.wait(timeout=60)
    for end in ends:
        assert select.select([end], [], [], 60)[0], "a process that it started outlives it"
        os.close(end)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_jailed_script_leaves_neither_folder_nor_process_however_its_owner_ends(tmp_path, number):
    script, scratch = tmp_path / "script.py", tmp_path / "scratch"
    script.write_text(READY)
    with started(HOLDER, script, scratch=scratch) as owner:
        assert owner.stdout.readline() == "ready\n"
        assert [path.name.startswith("spade-jailed-") for path in scratch.iterdir()] == [True]
        ended(owner, number)
        assert list(scratch.iterdir()) == []


class Deaf(BaseHTTPRequestHandler):
    """Tells that it is there, and never answers a question."""

    asked: threading.Event
    closed: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        self.asked.set()
        self.closed.wait()

    def log_message(self, *_said) -> None: ...


@pytest.fixture
def deaf():
    """The address of an endpoint, and an event that a question sets."""
    handler = type("Handler", (Deaf,), {"asked": threading.Event(), "closed": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1#m", handler.asked
        handler.closed.set()
        server.shutdown()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, TERMINATED), (signal.SIGINT, 130)])
def test_a_run_that_is_ended_leaves_a_log_to_go_on_with_and_nothing_else(tmp_path, capsys, deaf, number, code):
    model, asked = deaf
    arguments = ("--suite", "environments:catalogue", "--limit", "2", "--n", "1", "--out", str(tmp_path / "log"))
    with started(COMMAND, "run", "--model", model, *arguments, scratch=tmp_path / "scratch") as run:
        assert asked.wait(60)
        ended(run, number)
        assert run.returncode == code
        assert "Traceback" not in run.stderr.read()
    assert list((tmp_path / "scratch").iterdir()) == []
    assert EvalLog(tmp_path / "log").samples().latest == {}
    with pytest.raises(SystemExit) as stop:
        main(["run", "--model", "scripted:gold", *arguments, "--resume"])
    assert (stop.value.code, "was made with model" in capsys.readouterr().err) == (2, True)
