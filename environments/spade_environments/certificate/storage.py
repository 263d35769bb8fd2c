"""Where a loose file's certificate stands, and how it is read and written."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .types import Certificate

__all__ = ["certificate_path", "read_certificate", "write_certificate"]


def certificate_path(source_path: Path | str) -> Path:
    """`NAME.certificate.json` beside the source `NAME.py`; `certificate.json` in a pool's folder."""
    path = Path(source_path)
    pooled = path.name == "environment.py" and path.with_name("spec.json").exists()
    return path.with_name("certificate.json") if pooled else path.with_suffix(".certificate.json")


def write_certificate(source_path: Path | str, certificate: Certificate) -> Path:
    """Write beside the source, whole or not at all, and return the path."""
    path = certificate_path(source_path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(certificate.to_json(), encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def read_certificate(source_path: Path | str) -> Certificate | None:
    """The certificate of a source file; `None` when there is none, or when it is void since the source has changed.

    Raises:
        CertificateError: the file beside the source is not a certificate.
    """
    path = certificate_path(source_path)
    if not path.exists():
        return None
    certificate = Certificate.from_json(path.read_bytes())
    identity = hashlib.sha256(Path(source_path).read_bytes()).hexdigest()
    return certificate if certificate.spec_id == identity else None
