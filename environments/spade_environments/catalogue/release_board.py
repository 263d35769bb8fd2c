from spade_environments import Call, Goal, ToolEnv, ToolError, tool

TITLES = (
    "login page", "search index", "dark theme", "export button", "price filter", "map view", "photo upload",
    "audit trail", "guest mode", "bulk edit", "help centre", "unit tests",
)  # fmt: skip
PEOPLE = ("Amir", "Bea", "Chen", "Dora", "Emil", "Fay", "Goran", "Hana")
STAGES = ("planned", "doing", "review", "done")


class ReleaseBoard(ToolEnv):
    """Bring a task and all that blocks it through a project board's stages, then cut and account for a release."""

    max_turns = 25
    hidden = ("work",)
    CHAIN = 2  # tasks to finish, each blocking the next; at most 3
    N_TASKS = 8  # tasks on the board: at least CHAIN + 2, at most 12

    def setup(self):
        titles = self.rng.sample(TITLES, self.N_TASKS)
        ids = [f"B{number}" for number in self.rng.sample(range(100, 1000), self.N_TASKS)]
        self.state = {"tasks": {}, "releases": {}}
        for task, title in zip(ids, titles, strict=True):
            self.state["tasks"][task] = {
                "title": title,
                "stage": "planned",
                "points": self.rng.randint(11, 49),
                "worker": None,
                "blocked_by": None,
            }
        self.chain = self.rng.sample(ids, self.CHAIN)
        for blocker, task in zip(self.chain, self.chain[1:], strict=False):
            self.state["tasks"][task]["blocked_by"] = blocker
        loose = [task for task in ids if task not in self.chain]
        self.state["tasks"][loose[0]]["blocked_by"] = loose[1]
        for task in loose[2:]:
            self.state["tasks"][task]["stage"] = self.rng.choice(("planned", "doing"))
        self.worker, self.reviewer = self.rng.sample(PEOPLE, 2)
        self.version = f"{self.rng.randint(2, 9)}.{self.rng.randint(10, 99)}"
        self.points = sum(self.state["tasks"][task]["points"] for task in self.chain)
        self.work = " ".join(self.chain)

    def _task(self, task):
        if task not in self.state["tasks"]:
            raise ToolError(f"there is no task {task[:40]!r}")
        return self.state["tasks"][task]

    def _person(self, person):
        if person not in PEOPLE:
            raise ToolError(f"nobody here is called {person[:40]!r}")

    @tool
    def find_task(self, title: str) -> str:
        """Give the id of the task with that title."""
        found = [task for task, facts in self.state["tasks"].items() if facts["title"] == title.strip().lower()]
        if not found:
            raise ToolError(f"no task has the title {title[:40]!r}")
        return found[0]

    @tool
    def read_task(self, task: str) -> dict:
        """Read a task by id: title, stage, points, worker, and the task that blocks it."""
        return self._task(task)

    @tool
    def assign(self, task: str, person: str) -> str:
        """Say who works on a planned task."""
        self._person(person)
        if self._task(task)["stage"] != "planned":
            raise ToolError("only a planned task can be assigned")
        self._task(task)["worker"] = person
        return "assigned"

    @tool
    def advance(self, task: str) -> str:
        """Move a task one stage on: planned to doing, doing to review. From review it leaves by approval alone."""
        facts = self._task(task)
        blocker = facts["blocked_by"]
        if facts["stage"] in ("review", "done"):
            raise ToolError(f"a task at stage {facts['stage']} cannot be advanced")
        if facts["worker"] is None:
            raise ToolError("nobody is assigned to this task")
        if blocker and self._task(blocker)["stage"] != "done":
            raise ToolError(f"task {blocker} must be done first")
        facts["stage"] = STAGES[STAGES.index(facts["stage"]) + 1]
        return f"now at stage {facts['stage']}"

    @tool
    def approve(self, task: str, reviewer: str) -> str:
        """Approve a task in review, by another person than its worker; it is done then."""
        self._person(reviewer)
        facts = self._task(task)
        if facts["stage"] != "review":
            raise ToolError(f"the task is at stage {facts['stage']}, not in review")
        if facts["worker"] == reviewer:
            raise ToolError("nobody approves their own work")
        facts.update(stage="done", reviewer=reviewer)
        return "done"

    @tool
    def cut_release(self, version: str) -> str:
        """Put all tasks that are done into a release of the given version."""
        if version in self.state["releases"]:
            raise ToolError(f"there is a release {version[:40]!r} already")
        if not version.strip() or len(version) > 20:
            raise ToolError("a version is a short text such as a number with a point")
        tasks = self.state["tasks"].items()
        self.state["releases"][version] = [task for task, facts in tasks if facts["stage"] == "done"]
        return f"{len(self.state['releases'][version])} tasks released"

    @tool
    def burndown(self, weeks: int) -> str:
        """Draw the burn-down chart of the last weeks."""
        if not 1 <= weeks <= 52:
            raise ToolError("weeks must lie between 1 and 52")
        return "drawn"

    def goals(self):
        title = self.state["tasks"][self.chain[-1]]["title"]
        before = {task: dict(facts) for task, facts in self.state["tasks"].items()}
        finished = {"stage": "done", "worker": self.worker, "reviewer": self.reviewer}
        after = {task: facts | finished if task in self.chain else facts for task, facts in before.items()}
        released = {self.version: [task for task in after if task in self.chain]}
        return [
            Goal("state", f"Get the task '{title}' done, and before it whatever blocks it, but nothing else. "
                 f"{self.worker} works on all of it and {self.reviewer} reviews it.",
                 lambda state, calls, reply: state == {"tasks": after, "releases": {}}, unlocks=("cut_release",)),
            Goal("asked", "Now cut the release."),
            Goal("state", f"Call it version {self.version}.",
                 lambda state, calls, reply: state == {"tasks": after, "releases": released}),
            Goal("replied", "How many points are the tasks in that release worth, all together?", value=self.points),
        ]  # fmt: skip

    def solution(self):
        title = self.state["tasks"][self.chain[-1]]["title"]
        steps = []
        for task in self.chain:
            steps += [Call("assign", task=task, person=self.worker), *(Call("advance", task=task) for _ in range(2))]
            steps.append(Call("approve", task=task, reviewer=self.reviewer))
        return [
            [Call("find_task", title=title), *(Call("read_task", task=task) for task in reversed(self.chain)), *steps],
            ["Which version shall it be?"],
            [Call("cut_release", version=self.version)],
            [f"{self.points} points."],
        ]
