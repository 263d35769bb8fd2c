"""`spade agent`: let a model carry out a task with the tools of MCP servers."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Let a model act with the tools of MCP servers.", no_args_is_help=True, rich_markup_mode=None)

_WANTED = "give a model, scripted:silent, scripted:random or scripted:FILE.jsonl"


@app.callback()
def _group() -> None:
    """Let a model act with the tools of MCP servers."""


@app.command("run", epilog='Example: spade agent run --model nano --mcp "spade serve ticket_desk --seed 3"')
def run(
    task: Annotated[
        str | None, typer.Argument(help="What the user asks for; left out, the task that a served environment sets.")
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="PATH, nano, smollm2, URL#MODEL or scripted:...")
    ] = "nano",
    mcp: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVER", help="An address, or a command that serves on stdio; repeatable."),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Messages of the agent, at most.")] = 25,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a message, at most.")] = 512,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the most likely token.")] = 0.7,
    seed: Annotated[int, typer.Option(help="Root of every random choice.")] = 0,
    backend: Annotated[
        str, typer.Option(metavar="auto|torch|vllm", help="What runs the model: this process, or a vLLM server.")
    ] = "auto",
    vllm_python: Annotated[
        str, typer.Option(metavar="PATH", help="The interpreter that has vLLM, with --backend vllm; else this one.")
    ] = "",
) -> None:
    """Carry out a task, printing each step as it happens.

    Steps are the messages, the calls of tools and their results. Without TASK the episode of a served environment
    (`spade serve`) is played in the form that training gives it: its prompts and tools, a message as a reply, its end.

    Exit code: 0 answered or the episode is over, 1 turns used up or no call that could be made, 2 wrong usage, 3 a
    server cannot be reached.
    """
    import asyncio

    from spade_agents.cli.failures import FAILED
    from spade_agents.cli.output import tell

    async def act() -> bool:
        from spade_agents.agent.sdk_run import run_agent
        from spade_agents.errors import UsageError
        from spade_agents.policy import Sampling, ScriptedPolicy, backend_named, open_policy
        from spade_agents.policy.vllm import VllmSettings
        from spade_environments.wording import counted

        sampling = Sampling(temperature=temperature, max_tokens=tokens)
        served = VllmSettings(python=vllm_python, eager=True)
        async with open_policy(model, backend=backend_named(backend), vllm=served) as policy:
            if isinstance(policy, ScriptedPolicy) and policy.needs_solution:
                raise UsageError(f"{model} plays an environment's own solution, and a server tells none; {_WANTED}")
            done = await run_agent(
                policy,
                task,
                mcp or [],
                sampling=sampling,
                seed=seed,
                max_turns=turns,
                say=lambda who, what: tell(f"{who:>7}: {what}"),
            )
        tell(
            f"{counted(done.requests, 'message')}, {done.prompt_tokens} tokens read, {done.completion_tokens} written",
            err=True,
        )
        return done.answer is not None

    if not asyncio.run(act()):
        raise typer.Exit(FAILED)
