"""How much runs of one model differ, and the smallest difference between two models that means anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, stdev

from spade_agents.errors import UsageError
from spade_agents.power import share_upper_bound, smallest_visible_drop
from spade_environments.wording import counted
from spade_evals.log import EvalLog
from spade_evals.types import Sample, SampleKey

__all__ = ["noise_lines"]


def noise_lines(logs: Sequence[EvalLog]) -> list[str]:
    """Means of the runs, their spread, how many samples changed from run to run, and what could be seen through that.

    Raises:
        UsageError: the logs are of different models or suites, or share no sample.
    """
    headers = [log.header() for log in logs]
    for header, log in zip(headers, logs, strict=True):
        if (header.suite, header.model.target, header.grading) != (
            headers[0].suite,
            headers[0].model.target,
            headers[0].grading,
        ):
            raise UsageError(
                f"{log.path} is of {header.suite} by {header.model.target}, {logs[0].path} of {headers[0].suite} by "
                f"{headers[0].model.target}; noise wants runs of one model on one suite"
            )
    runs = [log.samples().latest for log in logs]
    means = [fmean(scores) for run in runs if (scores := [one.score for one in run.values() if one.score is not None])]
    if len(means) < len(runs):
        raise UsageError("one of the logs has no scored sample; finish it with --resume")
    changed, pairs = _changed(runs)
    if not pairs:
        raise UsageError("the logs share no scored sample")
    size = round(pairs / (len(runs) * (len(runs) - 1) / 2))
    share, bound = changed / pairs, share_upper_bound(changed, pairs)
    smallest = smallest_visible_drop(size, bound)
    return [
        f"{headers[0].suite}, {headers[0].model.target}: {counted(len(runs), 'run')}",
        f"  means {', '.join(f'{mean:.4f}' for mean in means)}; spread {max(means) - min(means):.4f}, "
        f"standard deviation {stdev(means):.4f}",
        f"  {share:.1%} of samples change between two runs of this one model (at most {bound:.1%}, 95 %)",
        "  the smallest drop that a paired comparison of two runs sees 80 % of the time: "
        + ("none" if smallest is None else f"{smallest:.3f} ({size} pairs)"),
    ]


def _changed(runs: Sequence[dict[SampleKey, Sample]]) -> tuple[int, int]:
    """Changed and compared pairs, over all pairs of runs."""
    changed = pairs = 0
    for a, b in combinations(runs, 2):
        for key in a.keys() & b.keys():
            before, after = a[key].score, b[key].score
            if before is not None and after is not None:
                pairs += 1
                changed += before != after
    return changed, pairs
