from spade_environments import Call, Goal, ToolEnv, ToolError, tool

import copy
from typing import Literal

CUSTOMERS = ("Atlas Foods", "Blue Heron", "Cinder Labs", "Doyle Farms", "Everly Toys", "Fenwick", "Gale Motors")
SUBJECTS = ("invoice", "router", "printer", "password", "delivery", "webcam", "contract", "backup")
TEAMS = {
    "billing": "the people who deal with money",
    "network": "the people who look after cables and routers",
    "legal": "the lawyers",
}
ORDERS = ("close", "void", "snooze", "hand_over", "raise")


class TicketDesk(ToolEnv):
    """Pick the one fitting tool among similar ones for each request about support tickets, or decline."""

    max_turns = 25
    hidden = ("wanted",)
    N_ORDERS = 3  # changes asked for, at most 5
    N_CUSTOMERS = 5  # at most 7
    N_TICKETS = 4  # tickets of each customer, at most 8

    def setup(self):
        self.customers = self.rng.sample(CUSTOMERS, self.N_CUSTOMERS)
        numbers = self.rng.sample(range(1000, 10000), self.N_CUSTOMERS * self.N_TICKETS)
        self.state = {}
        for customer in self.customers:
            for subject in self.rng.sample(SUBJECTS, self.N_TICKETS):
                self.state[f"K{numbers.pop()}"] = {
                    "customer": customer,
                    "subject": subject,
                    "status": "open",
                    "team": "support",
                    "priority": "normal",
                }
        tickets = self.rng.sample(sorted(self.state), self.N_ORDERS)
        orders = list(zip(self.rng.sample(ORDERS, self.N_ORDERS), tickets, strict=True))
        self.days, self.team = self.rng.randint(3, 29), self.rng.choice(sorted(TEAMS))
        self.looked_up = self.rng.choice(sorted({facts["subject"] for facts in self.state.values()}))
        self.wording, self.annoyed = self.rng.randrange(2), self.rng.choice(self.customers)
        self.parts = self.rng.sample([*orders, ("look", ""), ("refuse", "")], self.N_ORDERS + 2)
        self.wanted = " ".join(tickets)

    def _words(self, kind, customer="", subject=""):
        team = TEAMS[self.team]
        return {
            "look": (
                f"Show me everything that has come in about {self.looked_up} troubles.",
                f"I want to see the {self.looked_up} tickets of all customers.",
            ),
            "refuse": (f"Pay {self.annoyed} back its last bill.", f"Ring {self.annoyed} and say that we are sorry."),
            "close": (
                f"{customer} says that its {subject} trouble is over. Take that ticket off the board.",
                f"We have mended the {subject} trouble of {customer}, so that ticket is finished.",
            ),
            "void": (
                f"{customer} filed the {subject} ticket by mistake. It should not count as work done.",
                f"The {subject} ticket of {customer} says the same as another one. Strike it.",
            ),
            "snooze": (
                f"Nothing can be done about the {subject} ticket of {customer} for {self.days} days. "
                "Put it out of sight until then.",
                f"{customer} is away for {self.days} days; let its {subject} ticket sleep that long.",
            ),
            "hand_over": (
                f"The {subject} ticket of {customer} is nothing for us, but for {team}.",
                f"Let {team} deal with the {subject} ticket of {customer}.",
            ),
            "raise": (
                f"{customer} cannot work at all. Its {subject} ticket is to be dealt with before all others.",
                f"The {subject} ticket of {customer} comes first from now on.",
            ),
        }[kind][self.wording]

    def _listed(self, key, value):
        found = [{"ticket": ticket, **facts} for ticket, facts in self.state.items() if facts[key] == value]
        if not found:
            raise ToolError(f"no ticket has the {key} {value[:40]!r}")
        return found

    @tool
    def tickets_of(self, customer: str) -> list:
        """List the tickets of one customer."""
        return self._listed("customer", customer)

    @tool
    def tickets_about(self, subject: str) -> list:
        """List the tickets of all customers that have one word as their subject."""
        return self._listed("subject", subject)

    @tool
    def close_ticket(self, ticket: str) -> str:
        """End a ticket whose problem is solved; it counts as work done."""
        self._open(ticket)["status"] = "closed"
        return "closed"

    @tool
    def void_ticket(self, ticket: str) -> str:
        """Strike a ticket that should not exist (an error or a double); it does not count as work done."""
        self._open(ticket)["status"] = "void"
        return "void"

    @tool
    def snooze_ticket(self, ticket: str, days: int) -> str:
        """Hide an open ticket for some days, after which it comes back."""
        if not 1 <= days <= 60:
            raise ToolError("days must lie between 1 and 60")
        self._open(ticket)["status"] = f"asleep for {days} days"
        return "asleep"

    @tool
    def hand_over(self, ticket: str, team: Literal["billing", "network", "legal"]) -> str:
        """Give an open ticket to another team for good."""
        self._open(ticket)["team"] = team
        return "handed over"

    @tool
    def set_priority(self, ticket: str, priority: Literal["low", "normal", "urgent"]) -> str:
        """Say how soon an open ticket is dealt with, within its team."""
        self._open(ticket)["priority"] = priority
        return "set"

    @tool
    def print_board(self, layout: Literal["wide", "tall"]) -> str:
        """Print the whole board on paper for the meeting room."""
        return f"printed {layout}"

    def _open(self, ticket):
        if ticket not in self.state:
            raise ToolError(f"there is no ticket {ticket[:40]!r}")
        if self.state[ticket]["status"] != "open":
            raise ToolError(f"ticket {ticket} is {self.state[ticket]['status']}; only an open ticket can be changed")
        return self.state[ticket]

    def _effect(self, kind):
        return {
            "close": {"status": "closed"},
            "void": {"status": "void"},
            "snooze": {"status": f"asleep for {self.days} days"},
            "hand_over": {"team": self.team},
            "raise": {"priority": "urgent"},
        }[kind]

    def goals(self):
        board, goals = copy.deepcopy(self.state), []
        for kind, ticket in self.parts:
            if kind == "look":
                goals.append(Goal("called", self._words("look"), self._looked(copy.deepcopy(board))))
            elif kind == "refuse":
                goals.append(Goal("declined", self._words("refuse")))
            else:
                told = self._words(kind, board[ticket]["customer"], board[ticket]["subject"])
                board[ticket].update(self._effect(kind))
                goals.append(Goal("state", told, self._left(copy.deepcopy(board))))
        return goals

    def _left(self, board):
        return lambda state, calls, reply: state == board

    def _looked(self, board):
        wanted = Call("tickets_about", subject=self.looked_up)
        return lambda state, calls, reply: state == board and any(call == wanted and call.ok for call in calls)

    def solution(self):
        return [self._gold(kind, ticket) for kind, ticket in self.parts]

    def _gold(self, kind, ticket):
        if kind == "look":
            return [Call("tickets_about", subject=self.looked_up)]
        if kind == "refuse":
            return ["I have no tool for that."]
        change = {
            "close": Call("close_ticket", ticket=ticket),
            "void": Call("void_ticket", ticket=ticket),
            "snooze": Call("snooze_ticket", ticket=ticket, days=self.days),
            "hand_over": Call("hand_over", ticket=ticket, team=self.team),
            "raise": Call("set_priority", ticket=ticket, priority="urgent"),
        }[kind]
        return [Call("tickets_of", customer=self.state[ticket]["customer"]), change]
