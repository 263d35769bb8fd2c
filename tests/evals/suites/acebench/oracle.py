"""evalscope's ACEBench, loaded by file; what its modules import from the rest of the package is stood in for."""

from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from spade_agents.messages import Message


@dataclass
class _Trace:
    framework: str = ""
    strategy: str | None = None
    max_steps: int = 0
    total_usage: object = None
    events: list[object] = field(default_factory=list)

    def add_event(self, **event):
        self.events.append(event)


class _Said:
    def __init__(self, content="", **_):
        self.content, self.id = content, "x"


def _module(name, **names):
    module = types.ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


class Oracle:
    """Its modules by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "evalscope" / "benchmarks" / "acebench"
        package = types.ModuleType("acebench_oracle")
        package.__path__ = [str(self._folder)]
        sys.modules["acebench_oracle"] = package
        classes = folder / "evalscope" / "third_party" / "acebench"
        for name, path in (
            ("evalscope", folder / "evalscope"),
            ("evalscope.third_party", folder / "evalscope" / "third_party"),
            ("evalscope.third_party.acebench", classes),
        ):
            _module(name, __path__=[str(path)])
        kinds = Enum("EventType", "MODEL_GENERATE ERROR TOOL_CALL TOOL_RESULT SUBMIT")
        _module("evalscope.api", __path__=[])
        _module("evalscope.api.agent", AgentTrace=_Trace, EventType=kinds)
        said = dict.fromkeys(("ChatMessage", "ChatMessageSystem", "ChatMessageTool", "ChatMessageUser"), _Said)
        _module("evalscope.api.messages", **said)
        _module("evalscope.api.model", Model=object, ModelOutput=object, ModelUsage=_Said)
        _module("evalscope.utils", __path__=[])
        _module("evalscope.utils.logger", get_logger=lambda: None)
        for name in ("utils", "parser", "checker", "prompts", "scenarios", "rollout"):
            setattr(self, name, self._loaded(name))

    def _loaded(self, name):
        spec = importlib.util.spec_from_file_location(f"acebench_oracle.{name}", self._folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module


class Speaker:
    """A model of evalscope's kind that says lines in order and keeps what it was asked.

    As policies of ours do, it leaves out spaces around a message.
    """

    name = "scripted"

    def __init__(self, lines):
        self.lines, self.asked = list(lines), []

    def generate(self, messages):
        self.asked.append(tuple(message.content for message in messages))
        text = self.lines[min(len(self.asked), len(self.lines)) - 1].strip()
        return types.SimpleNamespace(completion=text, usage=None, message=_Said(text), stop_reason="stop")


class Line:
    """The same for a policy of ours: the n-th completion is the n-th line, the last one again and again."""

    def __init__(self, lines):
        self.lines, self.asked = list(lines), []

    def __call__(self, conversation, _random) -> Message:
        self.asked.append(tuple(message.content for message in conversation.messages))
        text = self.lines[min(len(self.asked), len(self.lines)) - 1]
        return Message(role="assistant", content=text)
