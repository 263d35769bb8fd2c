"""A self-play run as settings: the tables of a configuration file, composed of the rooms' own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from spade_agents.designer.assignment import AssignmentSettings
from spade_agents.designer.design import DesignerSettings
from spade_agents.designer.memory import MemorySettings
from spade_agents.diversity import CollapseSettings
from spade_agents.policy.endpoint_client import EndpointSettings
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.rewards import Blend, RatioWeight, RegimeThresholds, RewardConfig, RoleWeight, needs_hinted_plays
from spade_agents.rollout import PlaySettings, Transport
from spade_agents.runtime.settings import LocalTable, RayTable, RuntimeTable
from spade_agents.settings import Section
from spade_agents.tracking import NoTracker, TrackerConfig
from spade_agents.training.config import EngineConfig, TorchEngineConfig
from spade_environments import Skill
from spade_environments.certificate import CertificateSettings
from spade_environments.sandbox.settings import LocalSandboxSettings, SandboxSettings
from spade_environments.spec import GAME_SKILLS, TOOL_SKILLS

__all__ = [
    "DesignedPool",
    "DesignerTable",
    "EvaluationTable",
    "FrontierPool",
    "FrozenDesigner",
    "HeldOutStop",
    "MetricsTable",
    "ModelTable",
    "NoEarlyStop",
    "NoPool",
    "NoReplay",
    "NoveltyTable",
    "OwnPool",
    "RolloutTable",
    "RunSettings",
    "RunTable",
    "SelfDesigner",
    "SelfplayTable",
    "StaticPool",
    "SupervisedReplay",
    "TorchSampler",
    "TrainingTable",
]

_SKILL_GROUPS = {"games": GAME_SKILLS, "tools": TOOL_SKILLS, "all": tuple(Skill)}


class NoEarlyStop(Section):
    """All rollouts are done."""

    type: Literal["none"] = "none"


class HeldOutStop(Section):
    """The run ends, its waiting designs trained, once held-out evaluations have stopped getting better."""

    type: Literal["held_out"] = "held_out"
    part: str = ""
    """Which part's solve rate counts; empty for the mean of all parts."""
    patience: int = Field(default=3, ge=1)
    """Evaluations in a row that may bring nothing better."""
    min_gain: float = Field(default=0.0, ge=0)
    """By how much a solve rate must beat the best one so far to be better."""


class RunTable(Section):
    """The run itself."""

    name: str = Field(default="run", pattern=r"^\w[\w .-]*$")
    """Goes into the manifest and every checkpoint, and names the folder unless another is given."""
    seed: int = 0
    """Root of every random choice; two runs of one seed differ in nothing but wall time."""
    rollouts: int = Field(default=24, ge=1)
    """Cycles of play and update."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Rollouts between checkpoints; what was done since the last one is done again after a kill."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many of the newest checkpoints stay on disk."""
    early_stop: Annotated[NoEarlyStop | HeldOutStop, Field(discriminator="type")] = NoEarlyStop()


class ModelTable(Section):
    """The one policy that plays both roles."""

    start: str = "nano"
    """Where to start from: a model folder, a run, a `step-N`, or `nano`."""


class TorchSampler(Section):
    """The policy is sampled in the trainer's first process."""

    type: Literal["torch"] = "torch"


class SelfDesigner(Section):
    """The policy in training designs, and is trained on its designs."""

    type: Literal["self"] = "self"


class FrozenDesigner(Section):
    """Another policy designs, and never changes: the baseline without a learning designer."""

    type: Literal["frozen"] = "frozen"
    target: str = ""
    """A model as in `model.start`, or an endpoint; empty for the start checkpoint."""
    endpoint: EndpointSettings = EndpointSettings(request_seconds=600.0)
    """Retries, concurrency and prices, where `target` is an endpoint."""


class DesignerTable(Section):
    """Who designs, from what, and how."""

    policy: Annotated[SelfDesigner | FrozenDesigner, Field(discriminator="type")] = SelfDesigner()
    skills: tuple[Skill, ...] = TOOL_SKILLS
    """Active skills, taken in turn; also `games`, `tools` or `all`."""
    corpus: str = "builtin"
    """`builtin`, `none` (the ablation without grounding), or a JSONL or Parquet file."""
    corpus_words: int = Field(default=6000, ge=1)
    """Words of a document that enter the prompt."""
    call: DesignerSettings = DesignerSettings(style="compact")
    memory: MemorySettings = MemorySettings()
    assignment: AssignmentSettings = AssignmentSettings()
    """How slots differ: grounding, and in the full style form, domain, variant and target difficulty."""

    @pydantic.field_validator("skills", mode="before")
    @classmethod
    def _group(cls, value: object) -> object:
        return _SKILL_GROUPS.get(value, value) if isinstance(value, str) else value

    @pydantic.field_validator("skills")
    @classmethod
    def _some(cls, value: tuple[Skill, ...]) -> tuple[Skill, ...]:
        if not value:
            raise ValueError("name at least one skill")
        return value


class DesignedPool(Section):
    """The designer fills every set: self-play."""

    type: Literal["designed"] = "designed"


class StaticPool(Section):
    """Baseline: sets are drawn from a fixed pool, every environment as often as any other."""

    type: Literal["static"] = "static"
    source: str = "catalogue"
    """`catalogue`, a pool folder, a folder of files `NAME.py` with spec and certificate beside them, or
    `package.module:name` as for `own`, such as `spade_evals.pools:reasoning_gym`."""


class FrontierPool(Section):
    """Baseline: sets are drawn from a fixed pool, those of middling win rate first."""

    type: Literal["frontier"] = "frontier"
    source: str = "catalogue"
    low: float = Field(default=0.15, ge=0, le=1)
    high: float = Field(default=0.85, ge=0, le=1)
    """Win rates, both included, that count as middling."""
    explore: float = Field(default=0.25, ge=0, le=1)
    """Share of a set that is drawn from the whole pool all the same."""


class OwnPool(Section):
    """Sets are drawn from environments of your own, such as MCP servers (`McpEnv`); you answer for their checkers."""

    type: Literal["own"] = "own"
    source: str
    """`package.module:name` of a function without arguments that gives a list of `OwnEnvironment`s."""


class NoPool(Section):
    """Control: nothing is designed or played; only the supervised replay is trained on."""

    type: Literal["none"] = "none"


class SelfplayTable(Section):
    """The cycle's counts (method constants: B, G, k)."""

    environments: int = Field(default=8, ge=1)
    """B: environments in a set."""
    plays: int = Field(default=8, ge=2)
    """G: unhinted plays of each environment and rollout."""
    hint_plays: int = Field(default=8, ge=0)
    """Hinted plays of each environment at a regeneration, on the first of the same seeds; at most `plays`."""
    period: int = Field(default=4, ge=1)
    """k: rollouts for which a set is kept, and by which the designer's update is delayed."""
    pool: Annotated[DesignedPool | StaticPool | FrontierPool | OwnPool | NoPool, Field(discriminator="type")] = (
        DesignedPool()
    )
    play: PlaySettings = PlaySettings(style="compact", sampling=Sampling(max_tokens=128))
    """Of both arms, which are played alike."""
    asynchronous: bool = False
    """Sample the next rollout while the trainer updates on this one: its samples are one version of the weights behind,
    never more, which the importance weights carry. Faster where sampler and trainer have devices of their own."""
    mask_truncated: bool = False
    """Leave plays that ran out of turns or tokens out of training instead of giving them a return of 0."""
    regimes: RegimeThresholds = RegimeThresholds()

    @pydantic.model_validator(mode="after")
    def _hinted_seeds_are_shared(self) -> SelfplayTable:
        if self.hint_plays > self.plays:
            raise ValueError(
                f"hint_plays is {self.hint_plays}; wanted at most plays, {self.plays}: both arms share seeds"
            )
        return self


class RolloutTable(Section):
    """How training episodes reach their environments."""

    transport: Transport = "direct"
    """`direct`, or `mcp`: each episode is played over an MCP server's URL, to the same tokens."""


class NoReplay(Section):
    """Nothing but samples of both roles is trained on."""

    type: Literal["none"] = "none"


class SupervisedReplay(Section):
    """Each update also imitates samples of a source: what keeps a tiny model from forgetting its language."""

    type: Literal["supervised"] = "supervised"
    source: str
    """`package.module:name` of a factory: from the start model's folder to `(seed, count) -> samples`."""
    samples: int = Field(default=16, ge=1)
    """Of each update; `training.engine.loss.replay_weight` weighs their loss."""


class TrainingTable(Section):
    """The update."""

    engine: Annotated[EngineConfig, Field(discriminator="type")] = TorchEngineConfig()
    role_weight: Annotated[RoleWeight, Field(discriminator="type")] = RatioWeight()
    """Factor on designer advantages."""
    batch_samples: int = Field(default=0, ge=0)
    """Most samples of an update; of more, a random choice is trained on. 0 trains on all of a rollout."""
    replay: Annotated[NoReplay | SupervisedReplay, Field(discriminator="type")] = NoReplay()
    arrival_tolerance: float = Field(default=0.05, gt=0)
    """Mean difference of log-probabilities between engine and policy, after a change of weights, that is rounding."""


class EvaluationTable(Section):
    """Held-out plays during the run: the same ones every time."""

    evaluator: str = "none"
    """`package.module:name` of a factory called with this table and the open sandbox, or `none`."""
    parts: Mapping[str, str] = {}
    """What is evaluated, by name, each reported apart; the evaluator knows what the values mean."""
    plays: int = Field(default=400, ge=1)
    """Plays of each part."""
    play: PlaySettings = PlaySettings(style="compact", sampling=Sampling(max_tokens=128))
    """Of every play, for every policy."""
    every: int = Field(default=0, ge=0)
    """Rollouts between evaluations; 0 for the start and the end alone."""
    seed: int = 20_000
    """Of instances and sampling; not the run's, so that runs are compared on the same plays."""


class NoveltyTable(Section):
    """The admission rule that keeps a set from repeating itself."""

    enabled: bool = True
    threshold: float = Field(default=0.9, gt=0, le=1)
    """Similarity of normalised syntax trees from which an environment counts as a copy of one in the pool."""


class MetricsTable(Section):
    """Where metrics go besides `metrics.jsonl` and the console."""

    tracker: Annotated[TrackerConfig, Field(discriminator="type")] = NoTracker()


class RunSettings(Section):
    """Everything that decides a run."""

    run: RunTable = RunTable()
    model: ModelTable = ModelTable()
    sampler: Annotated[TorchSampler | VllmSettings, Field(discriminator="type")] = TorchSampler()
    """What samples the policy in training; `vllm` is a server, started here or given."""
    designer: DesignerTable = DesignerTable()
    selfplay: SelfplayTable = SelfplayTable()
    rollout: RolloutTable = RolloutTable()
    reward: Annotated[RewardConfig, Field(discriminator="type")] = Blend()
    training: TrainingTable = TrainingTable()
    evaluation: EvaluationTable = EvaluationTable()
    sandbox: Annotated[SandboxSettings, Field(discriminator="type")] = LocalSandboxSettings()
    certificate: CertificateSettings = CertificateSettings()
    novelty: NoveltyTable = NoveltyTable()
    collapse: CollapseSettings = CollapseSettings()
    runtime: Annotated[RuntimeTable, Field(discriminator="type")] = LocalTable()
    metrics: MetricsTable = MetricsTable()

    @property
    def plays_of_a_rollout(self) -> int:
        """Unhinted plays of a full set: n_RA where none was played."""
        return self.selfplay.environments * self.selfplay.plays

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> RunSettings:
        sampling = (self.designer.call.sampling, self.selfplay.play.sampling)
        if any(s.top_p != 1.0 or s.top_k != 0 for s in sampling):
            raise ValueError("top_p and top_k must stay at 1 and 0 where samples are trained on: they bias the ratio")
        if self.designer.policy.type == "self" and self.designer.call.style != self.selfplay.play.style:
            raise ValueError("designer.call.style and selfplay.play.style differ, but one model plays both roles")
        if self.selfplay.pool.type == "none" and self.training.replay.type == "none":
            raise ValueError("selfplay.pool and training.replay are both 'none': there is nothing to train on")
        stop = self.run.early_stop
        if isinstance(stop, HeldOutStop) and (self.evaluation.evaluator == "none" or not self.evaluation.every):
            raise ValueError("run.early_stop is 'held_out': set evaluation.evaluator, and evaluation.every above 0")
        if isinstance(stop, HeldOutStop) and stop.part and stop.part not in self.evaluation.parts:
            known = ", ".join(self.evaluation.parts) or "(none)"
            raise ValueError(f"run.early_stop.part is {stop.part!r}; wanted one of evaluation.parts: {known}")
        if needs_hinted_plays(self.reward) and not self.selfplay.hint_plays and self.selfplay.pool.type == "designed":
            raise ValueError(f"reward {self.reward.type!r} needs hinted plays: set selfplay.hint_plays")
        return self

    @pydantic.model_validator(mode="after")
    def _sampler_and_trainer_can_work_at_once(self) -> RunSettings:
        if not self.selfplay.asynchronous:
            return self
        if isinstance(self.sampler, VllmSettings) and self.sampler.placement == "colocated":
            raise ValueError(
                "selfplay.asynchronous samples during an update, and sampler.placement is 'colocated', whose server "
                "sleeps then; set sampler.placement=separate with devices of its own, or selfplay.asynchronous=false"
            )
        if isinstance(self.sampler, TorchSampler) and self.training.engine.threads is not None:
            raise ValueError(
                f"selfplay.asynchronous samples during an update, and training.engine.threads is "
                f"{self.training.engine.threads}, which would change the torch sampler's threads in mid-play; leave it "
                "out and set OMP_NUM_THREADS for both"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _ray_places_the_sampler(self) -> RunSettings:
        sampler, runtime = self.sampler, self.runtime
        if not isinstance(runtime, RayTable) or not isinstance(sampler, VllmSettings) or not runtime.engines:
            return self
        if sampler.url:
            raise ValueError(
                f"runtime.engines is {runtime.engines}, and sampler.url names a server that is up already: set "
                "runtime.engines=0, or leave sampler.url out"
            )
        if sampler.placement == "colocated":
            raise ValueError(
                "runtime.type is 'ray', which gives every process devices of its own, and sampler.placement is "
                "'colocated': set sampler.placement=separate"
            )
        if sampler.devices:
            raise ValueError(
                f"runtime.type is 'ray', which deals devices out, and sampler.devices is {sampler.devices!r}: leave it "
                "out, and set runtime.engine_gpus"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _untrusted_programs_are_shut_in(self) -> RunSettings:
        """Inline, environments run inside the trainer: only the catalogue's own may."""
        if self.sandbox.type != "inline":
            return self
        pool, advice = (
            self.selfplay.pool,
            "set sandbox.type to 'local' (inline has no isolation: catalogue programs only)",
        )
        if pool.type == "designed":
            raise ValueError(f"sandbox.type is 'inline' and this run designs environments; {advice}")
        if pool.type in ("static", "frontier") and pool.source != "catalogue":
            raise ValueError(f"sandbox.type is 'inline' and the pool is {pool.source!r}, not the catalogue; {advice}")
        others = [name for name, source in self.evaluation.parts.items() if source != "catalogue"]
        if self.evaluation.evaluator != "none" and others:
            raise ValueError(f"sandbox.type is 'inline' and evaluation.parts.{others[0]} is no catalogue; {advice}")
        return self
