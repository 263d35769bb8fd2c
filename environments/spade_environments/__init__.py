"""Environments: the contract, the sandbox, the certificate and the hand-written catalogue."""

from spade_environments.faults import EnvironmentFault, FaultKind, HostFault, SandboxFault
from spade_environments.inside.contract import Call, ContractError, Goal, TextEnv, ToolEnv, ToolError, tool
from spade_environments.spec import GAME_SKILLS, TOOL_SKILLS, EnvironmentSpec, Skill, SpecError
from spade_environments.types import Action, Env, Observation, Reply, StepResult, ToolCall, ToolSpec

__all__ = [
    "GAME_SKILLS",
    "TOOL_SKILLS",
    "Action",
    "Call",
    "ContractError",
    "Env",
    "EnvironmentFault",
    "EnvironmentSpec",
    "FaultKind",
    "Goal",
    "HostFault",
    "Observation",
    "Reply",
    "SandboxFault",
    "Skill",
    "SpecError",
    "StepResult",
    "TextEnv",
    "ToolCall",
    "ToolEnv",
    "ToolError",
    "ToolSpec",
    "tool",
]
