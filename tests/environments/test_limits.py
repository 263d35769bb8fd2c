"""Limits of an episode: the kernel's own stands well behind the host's."""

from __future__ import annotations

import pytest

from spade_environments.limits import Limits


@pytest.mark.parametrize("seconds", [0.5, 1.0, 20.0, 600.0])
def test_the_kernel_never_ends_a_child_before_the_host_can(seconds):
    """Its count was seen to run 15 % ahead: the child then seemed to be killed from outside."""
    assert Limits(episode_cpu=seconds).kernel_cpu >= 1.2 * seconds + 1
