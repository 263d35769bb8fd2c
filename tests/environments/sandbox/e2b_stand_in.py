"""A stand-in for the E2B service on this machine: makes, runs and kills sandboxes, and breaks where it is told to."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn:
    """The service: `faults` names what goes wrong (`create`, `execute`, `kill` with `hang`, `500`, `drop`, `garbage`).

    `live` holds the sandboxes that were made and not killed; `made` counts them, with the request of each.
    """

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.live: set[str] = set()
        self.made: list[dict] = []
        self.keys: set[str | None] = set()
        self.released = threading.Event()
        outer = self

        class Handler(_Handler):
            service = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: StandIn

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v2/sandboxes":
            self._create(body)
        elif self.path == "/execute" and self.headers["E2b-Sandbox-Id"] in self.service.live:
            self._execute(body["code"])
        else:
            self._answer(404, {"code": 404, "message": "not found"})

    def do_DELETE(self):
        if self._broken("kill"):
            return
        self.service.live.discard(self.path.rpartition("/")[2])
        self.send_response(204)
        self.end_headers()

    def do_GET(self):
        self._answer(404, {"code": 404, "message": "not found"})

    def _create(self, body):
        self.service.keys.add(self.headers["X-API-Key"])
        if self.headers["X-API-Key"] == "wrong":
            self._answer(401, {"code": 401, "message": "unknown key"})
            return
        if self._broken("create"):
            return
        name = f"sandbox{len(self.service.made)}"
        self.service.made.append(body)
        self.service.live.add(name)
        self._answer(
            201, {"sandboxID": name, "templateID": body["templateID"], "clientID": "x", "envdVersion": "0.4.0"}
        )

    def _execute(self, code):
        if self._broken("execute"):
            return
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        lines = [{"type": "number_of_executions", "execution_count": 1}]
        half = len(ran.stdout) // 2
        lines += [{"type": "stdout", "text": part, "timestamp": 0} for part in (ran.stdout[:half], ran.stdout[half:])]
        if ran.returncode:
            lines.append({"type": "error", "name": "Died", "value": ran.stderr[-300:], "traceback": ""})
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            if line["type"] == "stdout" and self._broken("stream"):
                return
            self._chunk(json.dumps(line).encode() + b"\n")
        self._chunk(b"")

    def _broken(self, where):
        """Carry out the fault of this place, if it has one."""
        fault = self.service.faults.get(where)
        if fault == "hang":
            self.service.released.wait()
            self.close_connection = True
        elif fault == "500":
            self._answer(500, {"code": 500, "message": "out of order"})
        elif fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault == "garbage":
            self._chunk(b'{"type": \n')
        return fault is not None and fault != "garbage"

    def _chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
