"""What a jail refuses before it starts anything: a machine without its layers, and orders that cannot be meant."""

import subprocess
import sys
from pathlib import Path

import pytest

from spade_environments import HostFault
from spade_environments.inside import jail_entry, landlock, seccomp
from spade_environments.sandbox import python_folders, run_jailed

PYTHON = sys.executable
needs_layers = pytest.mark.skipif(bool(jail_entry.missing()), reason=f"this kernel lacks {jail_entry.missing()}")


async def test_a_kernel_without_the_layers_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 1)
    monkeypatch.setattr(seccomp, "available", lambda: False)
    with pytest.raises(HostFault, match=r"seccomp.*; Landlock of version 3 .* version 1 was found") as caught:
        await run_jailed(["/bin/true"])
    assert caught.value.kind == "sandbox_setup"


WRONG = {
    "a word for a list": (["sh"], {}, "give an absolute path"),
    "no words": ([], {}, "give a list"),
    "one string": ("/bin/true", {}, "give a list"),
    "no such program": (["/nowhere/x"], {}, "there is no such file"),
    "a null byte": (["/bin/true", "a\0b"], {}, "null byte"),
    "everything": (["/bin/true"], {"readable": ["/"]}, "list the folders"),
    "processes": (["/bin/true"], {"readable": ["/proc/self"]}, "list the folders"),
    "no such folder": (["/bin/true"], {"readable": ["/nowhere"]}, "there is no /nowhere"),
    "scratch that is a file": (["/bin/true"], {"scratch": "/bin/true"}, "is no folder"),
    "no time": (["/bin/true"], {"timeout": 0.0}, "timeout is 0.0"),
    "no memory": (["/bin/true"], {"memory": 5}, "memory is 5 bytes"),
    "a broken name": (["/bin/true"], {"environment": {"A=B": "c"}}, "leave it out"),
}


@needs_layers
@pytest.mark.parametrize("name", WRONG)
async def test_what_cannot_be_meant_is_refused(name):
    argv, options, told = WRONG[name]
    with pytest.raises(ValueError, match=told):
        await run_jailed(argv, **options)


def test_the_folders_of_an_interpreter_are_its_installation_and_its_environment(tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    installation = Path(PYTHON).resolve().parent.parent
    assert python_folders(environment / "bin" / "python") == (environment, installation)
    assert python_folders(Path(PYTHON).resolve()) == (installation,)
    with pytest.raises(ValueError, match="there is no file"):
        python_folders(tmp_path / "python")
