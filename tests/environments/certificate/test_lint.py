"""Lint: sources that are refused for one line, and honest ones that look alike."""

from __future__ import annotations

import importlib
import types

import pytest

from spade_environments.certificate import lint
from spade_environments.certificate.lint_rules import MODULES

REFUSED = [
    "import os",
    "import os.path",
    "from subprocess import run",
    "from . import x",
    "import spade_environments",
    "from spade_environments.sandbox import open_sandbox",
    "from random import _os",
    "from math import *",
    "from io import open",
    "eval('1')",
    "f = exec",
    "compile('1', '', 'eval')",
    "__import__('os')",
    "globals()['x']",
    "vars(x)['y']",
    "locals()",
    "open('/etc/passwd')",
    "input()",
    "__builtins__",
    "getattr(self, action)()",
    "getattr(self, 'do_' + action)()",
    "setattr(self, name, 1)",
    "delattr(self, name)",
    "getattr(x, '__class__')",
    "operator.attrgetter(name)",
    "operator.attrgetter('a.__class__')",
    "operator.methodcaller(action)",
    "().__class__",
    "object.__subclasses__()",
    "f.__globals__",
    "f.__code__",
    "type(self).__mro__",
    "x.f_back",
    "import dataclasses\nsys = dataclasses.sys",
    "import random\nrandom._os",
    "import random as dice\ndice._os",
    "import io\nio.open",
    "import numpy as np\nnp.load('x')",
    "read = getattr",
    "map(getattr, items, names)",
    "from operator import attrgetter as reader\nreader(action)",
    "open = 1\neval(open)",
    "self.__dict__[action]",
    "action.format(1)",
    "template.format(**state)",
    "str.format(action, 1)",
    "f = text.format_map",
    "'{0.__class__}'.format(self)",
    "action % (1, 2)",
    "text % {'a': 1}",
    "f'{x}' % 3",
    "def step(self, word: str):\n    return word % 3",
    "import uuid\nuuid.os.getpid()",
    "import uuid\nself.load = uuid.os",
    "from contextlib import os",
    "import dataclasses\ndataclasses.builtins.exec('1')",
    "import json\njson.decoder.scanner.re.enum.sys",
    "import html.parser as parser\nparser.re.copyreg",
    "import numpy.ctypeslib",
    "from numpy.lib.ctypeslib import x",
    "import uuid\ngetattr(uuid, 'os')",
    "getattr(frame, 'f_back')",
    "import operator\nread = operator.attrgetter\nread(action)(self)",
    "def f(self, x: 'open(1)'): pass",
    "def f(self) -> 'list[eval(1)]': pass",
    "x: list['().__class__'] = []",
    "import typing\ntyping.get_type_hints(f)",
    "x = '\ud800'",
    "def f(:",
    "(" * 300 + ")" * 300,
]

HONEST = [
    "import random, math, json",
    "from __future__ import annotations",
    "from collections import Counter, defaultdict",
    "import numpy as np\nx = np.zeros(3)",
    "re.compile('x')",
    "n % 10",
    "self.total % len(self.items)",
    "'%d of %d' % (a, b)",
    "'{} {}'.format(a, b)",
    "f'{a:>{width}}'",
    "getattr(self, 'name', None)",
    "operator.attrgetter('score')",
    "super().__init__()",
    "type(self).__name__",
    "def __eq__(self, other): return self.key == other.key",
    "class A:\n    def format(self): return 1\n    def show(self): return self.format()",
    "if __name__ == '__main__': pass",
    "format(x, '.2f')",
    "open = [order for order in orders if order.open]\nreturn_ = len(open)",
    "def f(self, input): return input + 1",
    "self.os = 'linux'\nself.platform.name",
    "import collections.abc\nx: collections.abc.Mapping",
    "from typing import Literal\ndef f(self, x: Literal['open', 'a b', 'class', 'exit now']) -> 'Board': pass",
    "import operator\nitems.sort(key=operator.itemgetter(1))\ntotal = reduce(operator.add, items)",
]


@pytest.mark.parametrize("source", REFUSED)
def test_a_line_that_reaches_out_is_refused_with_its_place(source):
    problems = lint(source, designed=False)
    assert problems
    assert all(problem.found and problem.repair for problem in problems)


@pytest.mark.parametrize("source", HONEST)
def test_an_honest_line_passes(source):
    assert lint(source, designed=False) == ()


def test_no_allowed_module_lends_another_that_is_not():
    for name in sorted(MODULES - {"numpy", "__future__", "spade_environments"}):
        module = importlib.import_module(name)
        lent = [
            public
            for public, value in vars(module).items()
            if isinstance(value, types.ModuleType) and not public.startswith("_")
            if value.__name__.split(".")[0].lstrip("_") not in MODULES
        ]
        assert all(lint(f"import {name}\n{name}.{public}", designed=False) for public in lent), (name, lent)


def test_linting_never_runs_the_source():
    assert lint("raise SystemExit\nwhile True: pass", designed=False) == ()


def test_problems_come_in_order_of_lines_and_at_most_five():
    source = "\n".join(["import os"] * 9)
    assert [problem.line for problem in lint(source, designed=False)] == [1, 2, 3, 4, 5]


def test_the_form_of_a_designed_file_allows_docstring_future_import_and_private_helpers(dial):
    source = '"""A lock."""\n\nfrom __future__ import annotations\n\n' + dial
    assert lint(source) == ()
    helped = dial.replace("class LockDial(TextEnv)", "class _Base(TextEnv):\n    pass\n\n\nclass LockDial(_Base)")
    assert lint(helped) == ()
    enum = dial.replace("\n\n\nclass", "\n\nfrom enum import Enum\n\n\nclass Colour(Enum):\n    RED = 1\n\n\nclass", 1)
    assert lint(enum) == ()


def test_an_import_need_not_have_the_form_of_a_designed_file():
    assert lint("import random\n\n\nclass MazeEnv:\n    pass\n", designed=False) == ()
    assert lint("import random\n\n\nclass MazeEnv:\n    pass\n")
