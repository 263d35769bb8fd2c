"""Data from the hub, of a server of our own: by name, checksummed, and a clear error where something is amiss."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spade_agents.errors import InfrastructureError, UsageError
from spade_evals.cli import main
from spade_evals.suites import hub
from spade_evals.suites.columns.mathematics import AimeColumn
from spade_evals.suites.hub import HUB, fetch

CONTENT = b'{"problem": "1 + 1?", "answer": "2", "id": "0"}\n'


@pytest.fixture
def server(monkeypatch):
    """A hub that has AIME 25, wants a token for GPQA, has another file for AIME 26, and breaks on LiveCodeBench."""

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith("/elsewhere"):
                self._answer(200, CONTENT)
            elif "gpqa" in self.path:
                self._answer(*((200, CONTENT) if self.headers.get("Authorization") == "Bearer good" else (401, b"")))
            elif "livecodebench" in self.path:
                self._answer(500, b"")
            else:
                self._answer(302, b"", Location=f"/elsewhere{self.path}")

        def _answer(self, status, body, **headers):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    asked = []
    digest = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    blob = hashlib.sha1(f"blob {len(CONTENT)}\0".encode() + CONTENT).hexdigest()
    pins = {"aime25": digest, "gpqa_diamond": f"blob:{blob}"}
    monkeypatch.setattr(hub, "HUB", {name: replace(f, digest=pins.get(name, f.digest)) for name, f in HUB.items()})
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{running.server_port}")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield asked
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_once_by_the_name_of_its_column(tmp_path, server):
    sizes = []
    path = fetch("aime25", tmp_path / "data", told=sizes.append)
    assert path.read_bytes() == CONTENT
    assert sizes == [len(CONTENT)]
    assert fetch("aime25", tmp_path / "data") == path
    assert [where for where, _ in server] == [
        f"/datasets/math-ai/aime25/resolve/{HUB['aime25'].revision}/test.jsonl",
        f"/elsewhere/datasets/math-ai/aime25/resolve/{HUB['aime25'].revision}/test.jsonl",
    ]
    (task,), digests = AimeColumn(name="aime25", data=tmp_path).load()
    assert task.messages[0].content == "1 + 1?\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert digests == {"aime25.jsonl": hashlib.sha256(CONTENT).hexdigest()}


def test_a_gated_file_wants_a_token(tmp_path, server, monkeypatch):
    with pytest.raises(InfrastructureError, match="accept the data set's terms there first; give a token in HF_TOKEN"):
        fetch("gpqa_diamond", tmp_path)
    monkeypatch.setenv("HF_TOKEN", "good")
    assert fetch("gpqa_diamond", tmp_path).name == "gpqa_diamond.csv"
    assert server[-1][1] == "Bearer good"


@pytest.mark.parametrize(
    ("column", "told"),
    [("aime26", "wanted sha256:52822957.*nothing was kept"), ("livecodebench_v6", "500.*put the file there by other")],
)
@pytest.mark.usefixtures("server")
def test_what_does_not_fit_or_does_not_come_leaves_nothing(tmp_path, column, told):
    with pytest.raises(InfrastructureError, match=told):
        fetch(column, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_file_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "aime25.jsonl").write_text("mine\n")
    with pytest.raises(UsageError, match="is another file than math-ai/aime25 has"):
        fetch("aime25", tmp_path)
    assert (tmp_path / "aime25.jsonl").read_text() == "mine\n"


def test_without_a_network_it_is_said(tmp_path):
    with pytest.raises(InfrastructureError, match=r"could not be fetched \(ConnectError.*where there is no network"):
        fetch("aime25", tmp_path, endpoint="http://127.0.0.1:9")


@pytest.mark.usefixtures("server")
def test_the_command_fetches_and_says_where(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["setup", "aime25", "--data", str(tmp_path)])
    assert not stop.value.code
    assert capsys.readouterr().out.endswith("aime25.jsonl\n")
    for arguments, told in ((["aime25"], "wants a folder"), (["aime24"], "there is nothing to set up for 'aime24'")):
        with pytest.raises(SystemExit) as stop:
            main(["setup", *arguments])
        assert stop.value.code == 2
        assert told in capsys.readouterr().err
