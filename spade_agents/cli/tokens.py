"""`spade tokens`: the token ledger of a play, with sampler's and trainer's log-probabilities side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from spade_agents.rollout.ledger import TokenRow
    from spade_agents.selfplay.run_directory import RunDirectory
    from spade_agents.trajectory import Trajectory

__all__ = ["tokens"]


def tokens(
    run: Annotated[Path, typer.Argument(help="The folder that a run wrote.")],
    play: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="ROLLOUT/NUMBER of a play; without it, all are listed.")
    ] = None,
    trainer: Annotated[bool, typer.Option(help="Score the tokens with the trainer's engine as well.")] = True,
    drift: Annotated[float, typer.Option(min=0.0, help="Difference of log-probabilities that is marked.")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Print each token of a play.

    Its place, source, whether it is trained on, its log-probability by sampler and trainer at the sampling temperature,
    and the weights that sampled it; a token on which the two drift apart is marked. The trainer's side needs the
    weights of that version: those that a checkpoint of the run still holds, or the start model.

    Exit code: 0 fine, 1 some token drifts, 2 no such run or play.
    """
    from spade_agents.cli.failures import FAILED
    from spade_agents.cli.output import print_json, tell
    from spade_agents.rollout.ledger import mismatch_of, token_ledger
    from spade_agents.selfplay.run_directory import RunDirectory

    directory = RunDirectory.open(run)
    if play is None:
        _list(directory, as_json=as_json)
        return
    trajectory = _found(directory, play)
    folder, note = _weights(directory, _version(trajectory))
    scores = _scored(directory, trajectory, folder) if trainer and folder else None
    rows = token_ledger(trajectory, _decoder(directory), trainer=scores, drift=drift)
    mismatch = mismatch_of(rows)
    if as_json:
        print_json(
            {
                "play": play,
                "tokens": [asdict(row) for row in rows],
                "mismatch": asdict(mismatch) if mismatch else None,
                "note": note,
            }
        )
    else:
        for line in _table(rows):
            tell(line)
        if trainer and note:
            tell(note, err=True)
        if mismatch:
            tell(
                f"{mismatch.tokens} trained tokens: ratio mean {mismatch.ratio_mean:.4f}, max "
                f"{mismatch.ratio_max:.4f}, effective sample size {mismatch.effective_sample_size:.4f}, "
                f"{mismatch.drifted} drift by more than {drift:g}"
            )
    if mismatch and mismatch.drifted:
        raise typer.Exit(FAILED)


def _list(directory: RunDirectory, *, as_json: bool) -> None:
    from spade_agents.cli.output import print_json, tell

    plays = list(_plays(directory))
    if as_json:
        print_json([_summary(identity, trajectory) for identity, trajectory in plays])
        return
    for identity, trajectory in plays:
        fields = _summary(identity, trajectory)
        arm = "hinted" if trajectory.hinted else "unhinted"
        tell(
            f"{identity:<9} {trajectory.environment_id[:12]}  seed {trajectory.seed:<15} {arm:<8}  "
            f"{fields['outcome']:<20} {fields['turns']:>2} turns  {fields['tokens']} tokens"
        )


def _summary(identity: str, trajectory: Trajectory) -> dict[str, Any]:
    sampled = [turn.completion.token_ids or () for turn in trajectory.turns]
    return {
        "play": identity,
        "environment": trajectory.environment_id,
        "seed": trajectory.seed,
        "hinted": trajectory.hinted,
        "outcome": trajectory.outcome.value,
        "turns": len(trajectory.turns),
        "tokens": sum(map(len, sampled)),
    }


def _plays(directory: RunDirectory) -> Iterator[tuple[str, Trajectory]]:
    rollouts = sorted({row["rollout"] for row in directory.metrics.rows() if row.get("kind") == "rollout"})
    for rollout in rollouts:
        for number, trajectory in enumerate(directory.read_trajectories(rollout)):
            yield f"{rollout}/{number}", trajectory


def _found(directory: RunDirectory, play: str) -> Trajectory:
    from spade_agents.errors import UsageError

    rollout, separator, number = play.partition("/")
    wanted = f"{play!r} is no play of {directory.path}; wanted ROLLOUT/NUMBER, as `spade tokens RUN` lists them"
    if not (separator and rollout.isdecimal() and number.isdecimal()):
        raise UsageError(wanted)
    plays = list(directory.read_trajectories(int(rollout)))
    if int(number) >= len(plays):
        raise UsageError(wanted)
    return plays[int(number)]


def _version(trajectory: Trajectory) -> int:
    """Of the weights that sampled a play: one play, one version."""
    from spade_agents.errors import UsageError

    versions = {turn.completion.weight_version for turn in trajectory.turns if turn.completion.token_ids}
    if not versions:
        raise UsageError("this play has no tokens: its policy gave none, or it ended before a turn")
    return max(versions)


def _weights(directory: RunDirectory, version: int) -> tuple[Path | None, str]:
    """The folder that holds weights of a version, or what to tell where none does."""
    from spade_agents.errors import SpadeError
    from spade_agents.policy import model_folder
    from spade_agents.policy.model_files import read_json

    for checkpoint in sorted(directory.checkpoints.glob("step-*")):
        about = checkpoint / "model" / "spade.json"
        if (checkpoint / "STABLE").exists() and about.is_file() and read_json(about).get("step") == version:
            return checkpoint / "model", ""
    if version == 0:
        try:
            return model_folder(directory.settings.model.start), ""
        except SpadeError as error:
            return None, f"the start model is not there any more: {error}"
    return None, (
        f"no trainer's log-probabilities: weights of version {version} are in no checkpoint any more; raise "
        "run.keep_checkpoints to keep them"
    )


def _decoder(directory: RunDirectory) -> Any:
    """Decodes with the tokenizer of the run's newest model, which is that of all of them."""
    from spade_agents.policy import model_folder
    from spade_agents.policy.tokenizer import load_tokenizer

    checkpoints = sorted(path for path in directory.checkpoints.glob("step-*/model/tokenizer.json"))
    folder = checkpoints[-1].parent if checkpoints else model_folder(directory.settings.model.start)
    return load_tokenizer(folder).decode


def _scored(directory: RunDirectory, trajectory: Trajectory, folder: Path) -> Sequence[float] | None:
    """The trainer's log-probabilities of the play's tokens, by an engine opened on these weights."""
    from spade_agents.training.config import TorchEngineConfig
    from spade_agents.training.engine import open_engine

    sample = trajectory.training_sample(advantage=0.0, group=trajectory.environment_id)
    if sample is None:
        return None
    settings = directory.settings.training.engine
    engine = open_engine(TorchEngineConfig(precision=settings.precision, threads=settings.threads), folder)
    try:
        return engine.logprobs([sample])[0]
    finally:
        engine.close()


def _table(rows: Sequence[TokenRow]) -> Iterator[str]:
    yield f"{'place':>6} {'turn':>4} {'source':<11} {'train':<5} {'sampler':>9} {'trainer':>9} {'weights':>7}   token"
    for row in rows:
        version = "" if row.weight_version is None else row.weight_version
        yield (
            f"{row.place:>6} {row.turn:>4} {row.source.value:<11} {'yes' if row.trained else '':<5} "
            f"{_number(row.sampler):>9} {_number(row.trainer):>9} {version:>7} "
            f"{'!' if row.drifts else ' '} {row.text!r}"
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
