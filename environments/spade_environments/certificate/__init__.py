"""The certificate: nothing is admitted unproven."""

from .certify import certify, certify_many
from .hint import certify_hint
from .lint import lint
from .novelty import Admission, MinHash, Novelty, NoveltyIndex, fingerprint, normalised_ast
from .storage import certificate_path, read_certificate, write_certificate
from .types import CORE_GATES, Certificate, CertificateError, CertificateSettings, Gate, GateResult, GateStatus, Verdict

__all__ = [
    "CORE_GATES",
    "Admission",
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
    "certify",
    "certify_hint",
    "certify_many",
    "fingerprint",
    "lint",
    "normalised_ast",
    "read_certificate",
    "write_certificate",
]
