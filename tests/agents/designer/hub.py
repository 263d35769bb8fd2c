"""A hub of datasets on this machine: enough of its API for the real library to find a dataset and stream it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "a" * 40
PIECE = 1 << 16


@dataclass
class Hub:
    """Serves the files of one dataset.

    Attributes:
        name: of the dataset, OWNER/NAME.
        files: in its root.
        url: where it listens.
        sent: bytes of files that went out.
    """

    name: str
    files: Mapping[str, bytes]
    url: str = ""
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def api(self, path: str) -> object | None:
        """What the API tells, or `None` where there is nothing."""
        root = f"/api/datasets/{self.name}"
        if path in (f"{root}/tree/{COMMIT}", f"{root}/tree/main"):
            return [self._entry(name) for name in self.files]
        if path in (root, f"{root}/revision/{COMMIT}", f"{root}/revision/main"):
            siblings = [{"rfilename": name} for name in self.files]
            return {"id": self.name, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False, "gated": False}
        return None

    def file(self, path: str) -> bytes | None:
        """The file of a path `/datasets/OWNER/NAME/resolve/REVISION/FILE`."""
        head, _, rest = path.partition("/resolve/")
        return self.files.get(rest.partition("/")[2]) if head == f"/datasets/{self.name}" else None

    @staticmethod
    def mark(data: bytes) -> str:
        """Of a file, by its beginning and its length."""
        return hashlib.sha1(b"%d" % len(data) + data[:PIECE]).hexdigest()

    def _entry(self, name: str) -> dict[str, object]:
        data = self.files[name]
        return {"type": "file", "path": name, "size": len(data), "oid": self.mark(data)}


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, listening until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None: ...

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            data = hub.file(path)
            if data is not None:
                self._give_file(data)
            elif (told := hub.api(path)) is not None:
                self._give(200, json.dumps(told).encode())
            else:
                missing = "EntryNotFound" if f"/{hub.name}/" in path else "RepoNotFound"
                self._give(404, b"{}", {"X-Error-Code": missing})

        def _give_file(self, data: bytes) -> None:
            first, last, status = 0, len(data) - 1, 200
            more = {"ETag": f'"{hub.mark(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if asked := self.headers.get("Range"):
                start, _, end = asked.removeprefix("bytes=").partition("-")
                first, last, status = int(start), min(int(end or last), last), 206
                more["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self._give(status, data[first : last + 1], more)

        def _give(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(more or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            for start in range(0, len(body), PIECE):
                try:
                    self.wfile.write(body[start : start + PIECE])
                except OSError:  # whoever streams goes when he has enough
                    self.close_connection = True
                    return
                with hub.lock:
                    hub.sent += len(body[start : start + PIECE])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
