"""The second half of a cycle: both arms of every environment of the set, on one seed list."""

from __future__ import annotations

from spade_agents.rollout import GroupRequest, play_groups
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.state import EnvironmentSet, LoopState, Played, SetMember
from spade_agents.trajectory import Outcome, TrajectoryGroup

__all__ = ["instance_seeds", "play_set"]


def instance_seeds(root: int, environment_id: str, rollout: int, count: int) -> tuple[int, ...]:
    """The seeds of an environment's plays in a rollout; a shorter list is a prefix of a longer one."""
    return tuple(derive_seed(root, "play", environment_id, rollout, number) for number in range(count))


async def play_set(resources: Resources, state: LoopState) -> Played:
    """Play every environment of the set that has not faulted; the hinted arm only at the set's first rollout."""
    current = state.current or EnvironmentSet(rollout=state.rollout)
    members = current.active
    requests = [_request(resources, state, member, hint=None) for member in members]
    if state.rollout == current.rollout and resources.settings.selfplay.hint_plays:
        hinted_members = [member for member in members if member.spec.hint]
        requests += [_request(resources, state, member, hint=member.spec.hint) for member in hinted_members]
    play = resources.settings.selfplay.play
    groups = await play_groups(requests, resources.plays or resources.sandbox, resources.policy, settings=play)
    unhinted, hinted = groups[: len(members)], groups[len(members) :]
    by_id = {group.environment_id: group for group in hinted}
    after = {m.spec.id: _after(m, group, by_id.get(m.spec.id)) for m, group in zip(members, unhinted, strict=True)}
    return Played(current=current.with_plays(after), unhinted=unhinted, hinted=hinted)


def _request(resources: Resources, state: LoopState, member: SetMember, *, hint: str | None) -> GroupRequest:
    settings = resources.settings
    count = settings.selfplay.plays if hint is None else settings.selfplay.hint_plays
    seeds = instance_seeds(settings.run.seed, member.spec.id, state.rollout, count)
    return GroupRequest(spec=member.spec, seeds=seeds, hint=hint)


def _after(member: SetMember, unhinted: TrajectoryGroup, hinted: TrajectoryGroup | None) -> SetMember:
    plays = [*unhinted.trajectories, *(hinted.trajectories if hinted else ())]
    faults = [play.fault or "fault" for play in plays if play.outcome is Outcome.ENVIRONMENT_FAULT]
    given = None if hinted is None else _returns(hinted)
    return member.played(_returns(unhinted), given, fault=faults[0] if faults else "")


def _returns(group: TrajectoryGroup) -> tuple[float | None, ...]:
    return tuple(play.reward if play.outcome.is_valid else None for play in group.trajectories)
