"""`environments:POOL`: plays of certified environments, by skill and difficulty."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spade_agents.errors import ConfigurationError, SpadeError, UsageError
from spade_agents.policy.open import model_folder
from spade_agents.policy.protocol import Sampling
from spade_agents.rollout import PlaySettings, play_group
from spade_agents.seeds import derive_seed
from spade_environments import EnvironmentSpec
from spade_evals.environments import part_specs
from spade_evals.suite import Missing, Runtime, SuiteData
from spade_evals.suites.plays import sample_of
from spade_evals.types import ColumnSettings, Sample, Score, Task

__all__ = ["COLUMN", "EnvironmentsSuite", "trained_on"]

COLUMN = "win_rate"


@dataclass(slots=True, kw_only=True)
class EnvironmentsSuite:
    """Plays of the environments that `source` names: `catalogue`, a pool folder, a run, or `module:function(argument)`.

    An episode is played as in training, by `rollout.play_group`; each epoch is an instance of its own.
    """

    source: str
    model: str = ""
    grading: str = "1"
    protocol: str = "default"
    columns: Mapping[str, ColumnSettings] = field(
        default_factory=lambda: {COLUMN: ColumnSettings(n=4, sampling=Sampling(max_tokens=512))}
    )
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    concurrency: int = 64
    _specs: dict[str, EnvironmentSpec] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"environments:{self.source}"

    def preflight(self) -> Sequence[Missing]:
        try:
            self._found()
        except SpadeError as error:
            raise UsageError(f"--suite {self.name}: {error}") from error
        return ()

    def load(self, columns: Sequence[str]) -> SuiteData:
        specs = self._found()
        self._specs = {spec.id: spec for spec in specs}
        count = len(trained_on(self.model, specs))
        return SuiteData(
            tasks=tuple(_task(spec) for spec in specs) if COLUMN in columns else (),
            checksums={spec.name or spec.id[:12]: spec.id for spec in specs},
            trained_on={COLUMN: count} if count else {},
        )

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        settings, started = self.columns[task.column], time.monotonic()
        group = await play_group(
            self._specs[task.id],
            await runtime.sandbox(),
            runtime.policy,
            seeds=[derive_seed(runtime.seed, "held-out", task.id, epoch)],
            draw=runtime.draw,
            settings=PlaySettings(sampling=settings.sampling, seconds=runtime.seconds, retries=0),
        )
        return replace(sample_of(task, epoch, group.trajectories[0]), seconds=time.monotonic() - started)

    async def grade(self, task: Task, sample: Sample) -> Score:
        """What the environment paid: it was graded while it was played."""
        return Score(value=sample.score or 0.0, reason=sample.reason)

    async def aclose(self) -> None: ...

    def _found(self) -> tuple[EnvironmentSpec, ...]:
        pool = Path(self.source) / "environments"
        source = str(pool) if (pool / "pool.json").is_file() else self.source
        specs = part_specs(source, "the pool")
        if len({spec.id for spec in specs}) < len(specs):
            raise ConfigurationError(f"the pool {self.source!r} holds an environment twice")
        return specs


def trained_on(model: str, specs: Sequence[EnvironmentSpec]) -> frozenset[str]:
    """Ids of the environments that the model was trained on, by identity or by program.

    A checkpoint names the environments of its run in `spade.json`; a run's pool has their sources, so that the same
    program under other names is found too; nano's folder has the fingerprints of its warm-up.
    """
    if model.startswith("scripted:") or "://" in model or not model:
        return frozenset()
    folder = model_folder(model)
    ids = frozenset(_listed(folder))
    marks = frozenset(_marks(folder))
    return frozenset(spec.id for spec in specs if spec.id in ids or (marks and _mark(spec.source) in marks))


def _listed(folder: Path) -> Iterator[str]:
    try:
        about = json.loads((folder / "spade.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'spade.json'} cannot be read: {error}") from error
    yield from (str(name) for name in about.get("trained_on") or ())


def _marks(folder: Path) -> Iterator[bytes]:
    """Fingerprints of everything the model is known to have met."""
    from spade_agents.nano.measure import FINGERPRINTS, read_fingerprints

    if (folder / FINGERPRINTS).is_file():
        yield from read_fingerprints(folder)
    # A checkpoint's model lies in RUN/checkpoints/step-N/model.
    pool = folder.resolve().parent.parent.parent / "environments"
    if (pool / "pool.json").is_file():
        yield from (_mark(path.read_text(encoding="utf-8")) for path in pool.glob("*/environment.py"))


def _mark(source: str) -> bytes:
    from spade_agents.nano.measure import MARK_BYTES
    from spade_environments.certificate.novelty import fingerprint

    return bytes.fromhex(fingerprint(source))[:MARK_BYTES]


def _task(spec: EnvironmentSpec) -> Task:
    fifth = min(int(spec.difficulty * 5), 4)
    tags = {
        "skill": spec.skill.value,
        "difficulty": f"{fifth / 5:.1f} to {(fifth + 1) / 5:.1f}",
        "environment": spec.name,
    }
    return Task(id=spec.id, column=COLUMN, target="return 1", tags=tags)
