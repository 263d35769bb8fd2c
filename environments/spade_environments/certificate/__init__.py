"""The certificate: nothing is admitted unproven."""

from .lint import lint
from .novelty import MinHash, Novelty, NoveltyIndex, fingerprint, normalised_ast
from .storage import certificate_path, read_certificate, write_certificate
from .types import Certificate, CertificateError, CertificateSettings, Gate, GateResult, GateStatus, Verdict

__all__ = [
    "Certificate",
    "CertificateError",
    "CertificateSettings",
    "Gate",
    "GateResult",
    "GateStatus",
    "MinHash",
    "Novelty",
    "NoveltyIndex",
    "Verdict",
    "certificate_path",
    "fingerprint",
    "lint",
    "normalised_ast",
    "read_certificate",
    "write_certificate",
]
