"""The errors a user may meet; each says what was found, what was wanted and what to do."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigurationError",
    "ContextExhaustedError",
    "InfrastructureError",
    "PolicyError",
    "SpadeError",
    "UsageError",
]


class SpadeError(Exception):
    """Base of all errors that the command line prints as one message, without a traceback."""

    exit_code = 1


class UsageError(SpadeError):
    """Wrong arguments, a missing file, a folder that exists: exit code 2."""

    exit_code = 2


class ConfigurationError(UsageError):
    """An unknown key or an unfit value in a configuration."""


class CheckpointError(UsageError):
    """A checkpoint that is missing, unfinished or corrupt."""


class PolicyError(SpadeError):
    """The policy cannot do what is asked of it (context too long, no tokens for the trainer)."""


class ContextExhaustedError(PolicyError):
    """The conversation has grown past the context: the agent's own doing, a return of 0 in a play."""


class InfrastructureError(SpadeError):
    """A model server, engine or machine failed: not decidable, exit code 3."""

    exit_code = 3
