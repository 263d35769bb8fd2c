from spade_environments import Call, Goal, ToolEnv, ToolError, tool

import re
from typing import Literal

NAMES = ("Irma Solberg", "Jonas Petrov", "Karim Haddad", "Lena Fischer", "Marta Ruiz", "Noah Quist")
TOWNS = ("Alder Bay", "Birch Hill", "Cedar Falls", "Dover Point")
PLANS = ("Breeze", "Comet", "Delta", "Ember", "Fjord")
MONTHS = ("March", "April", "May", "June")


class PhoneUsage(ToolEnv):
    """Answer questions about a customer's phone lines by reading the right records and adding them up."""

    max_turns = 20
    hidden = ("total", "over")
    N_LINES = 3  # lines of the customer, at most 5
    N_NAMESAKES = 2  # customers who share each name, at most 4

    def setup(self):
        numbers = self.rng.sample(range(10000, 99999), len(NAMES) * self.N_NAMESAKES * (self.N_LINES + 1))
        self.allowance = {plan: 100 * self.rng.randint(20, 60) for plan in PLANS}
        self.month, self.other_month = self.rng.sample(MONTHS, 2)
        self.state = {"customers": {}, "lines": {}, "suspended": []}
        for name in NAMES:
            for town in self.rng.sample(TOWNS, self.N_NAMESAKES):
                customer = f"C{numbers.pop()}"
                lines = [str(numbers.pop()) for _ in range(self.N_LINES)]
                self.state["customers"][customer] = {"name": name, "town": town, "lines": lines}
                plans = self.rng.sample(PLANS, self.N_LINES)
                for line, plan in zip(lines, plans, strict=True):
                    self.state["lines"][line] = {"plan": plan, **{month: self._use(plan) for month in MONTHS}}
        self.customer = self.rng.choice(sorted(self.state["customers"]))
        self.lines = self.state["customers"][self.customer]["lines"]
        self.over = self.rng.choice(self.lines)
        record = self.state["lines"][self.over]
        record[self.month] = self.allowance[record["plan"]] + self.rng.randint(7, 900)
        self.total = sum(self.state["lines"][line][self.month] for line in self.lines)

    def _use(self, plan):
        """Megabytes in a month: within the plan's allowance."""
        return self.allowance[plan] - self.rng.randint(7, 1500)

    @tool
    def find_customers(self, name: str) -> list:
        """List the customers of that full name, each with id and town."""
        found = [(key, entry) for key, entry in self.state["customers"].items() if entry["name"] == name]
        if not found:
            raise ToolError(f"no customer is called {name[:40]!r}; the full name is needed")
        return [{"customer": key, "town": entry["town"]} for key, entry in found]

    @tool
    def list_lines(self, customer: str) -> list:
        """List a customer's lines by number, each with its plan."""
        if customer not in self.state["customers"]:
            raise ToolError(f"no customer has the id {customer[:40]!r}")
        lines = self.state["customers"][customer]["lines"]
        return [{"line": line, "plan": self.state["lines"][line]["plan"]} for line in lines]

    @tool
    def read_usage(self, line: str, month: Literal["March", "April", "May", "June"]) -> dict:
        """Read the megabytes that a line used in a month."""
        return {"megabytes": self._line(line)[month]}

    @tool
    def read_plan(self, plan: str) -> dict:
        """Read a plan's sheet: the megabytes a month that it allows."""
        if plan not in self.allowance:
            raise ToolError(f"there is no plan {plan[:40]!r}")
        return {"allowed_megabytes": self.allowance[plan]}

    @tool
    def outages(self, town: str) -> str:
        """Tell whether a town has an outage at present."""
        if town not in TOWNS:
            raise ToolError(f"{town[:40]!r} is not a town that we serve")
        return "none"

    @tool
    def suspend_line(self, line: str) -> str:
        """Cut a line off, after a theft."""
        self._line(line)
        if line not in self.state["suspended"]:
            self.state["suspended"].append(line)
        return "suspended"

    def _line(self, line):
        if line not in self.state["lines"]:
            raise ToolError(f"there is no line {line[:40]!r}")
        return self.state["lines"][line]

    def goals(self):
        who = self.state["customers"][self.customer]
        wanted = {"line": self.over, "month": self.other_month}

        def shown(state, calls, reply):
            reads = [call.arguments for call in calls if call.name == "read_usage" and call.ok]
            return not state["suspended"] and bool(reads) and all(read == wanted for read in reads)

        return [
            Goal("replied", f"How many megabytes did the lines of {who['name']} of {who['town']} use in {self.month}, "
                 "all together?",
                 lambda state, calls, reply: not state["suspended"], value=self.total),
            Goal("replied", "Which one of these lines used more than its plan allows in that month? Just its number, "
                 "please.",
                 lambda state, calls, reply: not state["suspended"] and re.findall(r"\d{5,}", reply) == [self.over],
                 value=self.over),
            Goal("called", f"Put that line's usage in {self.other_month} on my screen, and no other record; "
                 "I read it myself.", shown),
        ]  # fmt: skip

    def solution(self):
        plans = [self.state["lines"][line]["plan"] for line in self.lines]
        return [
            [
                Call("find_customers", name=self.state["customers"][self.customer]["name"]),
                Call("list_lines", customer=self.customer),
                *(Call("read_usage", line=line, month=self.month) for line in self.lines),
                f"Together {self.total} megabytes.",
            ],
            [*(Call("read_plan", plan=plan) for plan in plans), self.over],
            [Call("read_usage", line=self.over, month=self.other_month)],
        ]
