"""A program as parts (tools, goals, rules), and its text against the contract."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spade_environments import Skill

__all__ = ["CallPart", "GoalPart", "Program", "ToolPart"]

HEADER = "from spade_environments import Call, Goal, ToolEnv, ToolError, tool\n\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPart:
    """One tool method.

    Attributes:
        name: the method's name.
        params: names and types.
        returns: type of the result.
        told: the docstring.
        body: lines, without indentation.
        keyed: the parameter that must be a known key, or "".
        writes: whether it changes the state, so that a rule may guard it.
    """

    name: str
    params: tuple[tuple[str, str], ...] = ()
    returns: str = "str"
    told: str
    body: tuple[str, ...]
    keyed: str = ""
    writes: bool = False

    def guarded(self, *lines: str, params: tuple[tuple[str, str], ...] = ()) -> ToolPart:
        """The same tool with lines before its body and parameters after its own."""
        return replace(self, body=lines + self.body, params=self.params + params)

    def text(self) -> str:
        """The method, as it stands in the class."""
        listed = "".join(f", {name}: {kind}" for name, kind in self.params)
        body = "\n".join(f"        {line}" for line in self.body)
        return f'    @tool\n    def {self.name}(self{listed}) -> {self.returns}:\n        """{self.told}"""\n{body}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """One call of a solution: argument names to source expressions; `about` is the key a write is about."""

    tool: str
    arguments: tuple[tuple[str, str], ...] = ()
    about: str = ""

    def text(self) -> str:
        listed = "".join(f", {name}={expression}" for name, expression in self.arguments)
        return f'Call("{self.tool}"{listed})'


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalPart:
    """One goal, how it is solved, and what a hint says of it.

    Attributes:
        kind: as in the contract.
        instruction: source of a string or f-string, without quotes.
        check: source of the condition over state, calls and reply, or "".
        value: source of the value of a `replied` goal, or "".
        calls: the gold calls.
        reply: source of the gold reply, or "" for an empty one.
        hint: a clause of the hint.
        setup: extra lines of `setup`.
        label: what the structure is called.
    """

    kind: str
    instruction: str
    check: str = ""
    value: str = ""
    calls: tuple[CallPart, ...] = ()
    reply: str = ""
    hint: str = ""
    setup: tuple[str, ...] = ()
    label: str = ""

    def text(self) -> str:
        prefix = "f" if "{" in self.instruction else ""
        check = f", lambda state, calls, reply: {self.check}" if self.check else ""
        value = f", value={self.value}" if self.value else ""
        return f'Goal("{self.kind}", {prefix}"{self.instruction}"{check}{value})'

    def solved(self) -> str:
        steps = [call.text() for call in self.calls] + ([self.reply] if self.reply else [])
        return f"[{', '.join(steps)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole environment, its hint and where it came from."""

    desk: str
    constants: tuple[tuple[str, int], ...]
    setup: tuple[str, ...]
    helper: tuple[str, ...] = ()
    tools: tuple[ToolPart, ...]
    goals: tuple[GoalPart, ...]
    skill: Skill
    domain: str
    rule: str
    shape: str
    hints: tuple[str, ...] = field(default=())

    @property
    def source(self) -> str:
        """The designed file."""
        constants = "".join(f"    {name} = {value}\n" for name, value in self.constants)
        setup = "\n".join(f"        {line}" for line in self.setup)
        helper = "".join(f"    {line}\n" for line in self.helper)
        tools = "\n".join(tool.text() for tool in self.tools)
        goals = "".join(f"            {goal.text()},\n" for goal in self.goals)
        solution = "".join(f"            {goal.solved()},\n" for goal in self.goals)
        return (
            f"{HEADER}class {self.desk}(ToolEnv):\n{constants}\n    def setup(self):\n{setup}\n\n"
            + (f"{helper}\n" if helper else "")
            + f"{tools}\n    def goals(self):\n        return [\n{goals}        ]\n\n"
            f"    def solution(self):\n        return [\n{solution}        ]\n"
        )

    @property
    def hint(self) -> str:
        """What the hint writer is taught to say."""
        said = list(dict.fromkeys([*self.hints, *(goal.hint for goal in self.goals if goal.hint)]))
        return " ".join(f"{clause}." for clause in said)

    @property
    def label(self) -> str:
        """Shape, rule and goals: the generator's own name for the structure."""
        return f"{self.shape}/{self.rule}/{'+'.join(goal.label for goal in self.goals)}"
