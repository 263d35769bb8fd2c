"""The idealised claim behind regret, by enumeration of a small design-and-play (arXiv 2608.19197, its theory section).

The designer picks an environment and is paid ρ, the agent picks a deterministic policy and is paid its unhinted return
there. If hints make any policy optimal and one policy can hold all that the hints give, ρ is never negative and every
pure Nash equilibrium is optimal without hints on every valid environment.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from spade_agents.rewards import regret

# By environment, the return of each of three actions; the best is worth less than 1 in the last.
RETURNS = ((1.0, 0.0, 0.5), (0.0, 1.0, 0.0), (0.25, 0.0, 0.75))
ENVIRONMENTS = range(len(RETURNS))
BEST = tuple(max(row) for row in RETURNS)
Plan = tuple[int, ...]


def unhinted(environment: int, plan: Plan) -> float:
    return RETURNS[environment][plan[environment]]


def perfect_hint(environment: int, plan: Plan) -> float:
    return BEST[environment]


def hint_that_misleads_in_the_last(environment: int, plan: Plan) -> float:
    return min(RETURNS[environment]) if environment == ENVIRONMENTS[-1] else BEST[environment]


def rho(hinted: Callable[[int, Plan], float], environment: int, plan: Plan) -> float:
    arms = regret([hinted(environment, plan)], [unhinted(environment, plan)])
    assert arms is not None
    return arms.raw


def equilibria(hinted: Callable[[int, Plan], float], plans: list[Plan]) -> list[tuple[int, Plan]]:
    """Pairs from which neither side gains by changing alone."""
    return [
        (environment, plan)
        for environment, plan in product(ENVIRONMENTS, plans)
        if unhinted(environment, plan) == max(unhinted(environment, other) for other in plans)
        and rho(hinted, environment, plan) == max(rho(hinted, other, plan) for other in ENVIRONMENTS)
    ]


def is_optimal_everywhere(plan: Plan) -> bool:
    return all(unhinted(environment, plan) == BEST[environment] for environment in ENVIRONMENTS)


PLANS: list[Plan] = list(product(range(3), repeat=len(RETURNS)))


def test_with_perfect_hints_regret_is_never_negative_and_zero_only_at_the_optimum():
    for plan in PLANS:
        regrets = [rho(perfect_hint, environment, plan) for environment in ENVIRONMENTS]
        assert min(regrets) >= 0.0
        assert (max(regrets) == 0.0) == is_optimal_everywhere(plan)


def test_with_perfect_hints_every_pure_equilibrium_is_optimal_without_hints_everywhere():
    found = equilibria(perfect_hint, PLANS)
    assert found == [(environment, (0, 1, 2)) for environment in ENVIRONMENTS]
    assert all(is_optimal_everywhere(plan) for _, plan in found)


def test_a_misleading_hint_makes_regret_negative_and_lets_equilibria_fail_where_it_misleads():
    assert rho(hint_that_misleads_in_the_last, 2, (0, 1, 2)) == -0.75
    found = equilibria(hint_that_misleads_in_the_last, PLANS)
    failing = [(environment, plan) for environment, plan in found if not is_optimal_everywhere(plan)]
    # The designer has no reason to ask for what the agent cannot do and the hint cannot help with.
    assert (0, (0, 1, 1)) in failing


def test_what_no_single_policy_can_internalise_has_no_pure_equilibrium():
    same_action_everywhere = [(action,) * len(RETURNS) for action in range(3)]
    assert equilibria(perfect_hint, same_action_everywhere) == []
