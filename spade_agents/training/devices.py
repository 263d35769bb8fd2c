"""The devices that training may use; torch is imported only where one other than the CPU is asked for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Device", "devices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An accelerator; memory in bytes."""

    name: str
    memory: int


def devices(kind: str) -> tuple[Device, ...]:
    """The accelerators of a kind, as torch names it (`cuda`, or one such as `cuda:1`); none for the CPU."""
    family = kind.partition(":")[0]
    if family == "cpu":
        return ()
    import torch

    module = getattr(torch, family, None)
    if module is None or not hasattr(module, "get_device_properties") or not module.is_available():
        return ()
    found = (module.get_device_properties(number) for number in range(module.device_count()))
    return tuple(Device(name=str(each.name), memory=int(each.total_memory)) for each in found)
