from spade_environments import Call, Goal, ToolEnv, ToolError, tool

PAYEES = ("Acorn Press", "Bellweather", "Cobalt Tiles", "Dunlin Boats", "Elm Dental", "Foxglove", "Grebe Cycles")
ACCOUNTS = ("household", "holiday", "garden", "savings", "studio", "reserve")
FORMS = ("residence", "income", "signature", "identity", "tax")
OBSTACLES = ("stranger", "frozen", "limit")


class BankTransfers(ToolEnv):
    """Make transfers that fail until their causes, told in the errors, are mended by other calls."""

    max_turns = 25
    hidden = ("secret",)
    N_TRANSFERS = 2  # transfers asked for, at most 4; where each has several obstacles, at most 2
    N_OBSTACLES = 2  # causes of failure for each, at most 3

    def setup(self):
        self.accounts = self.rng.sample(ACCOUNTS, self.N_TRANSFERS)
        self.payees = self.rng.sample(PAYEES, self.N_TRANSFERS)
        self.amounts = self.rng.sample(range(210, 980), self.N_TRANSFERS)
        codes = self.rng.sample(range(1000, 10000), len(PAYEES) + len(ACCOUNTS))
        self.codes = {payee: f"V{codes.pop()}" for payee in PAYEES}
        self.tokens = {account: f"K{codes.pop()}" for account in ACCOUNTS}
        self.forms = {account: self.rng.choice(FORMS) for account in ACCOUNTS}
        self.state = {"balance": {}, "limit": {}, "frozen": [], "verified": list(PAYEES), "paid": []}
        for account in ACCOUNTS:
            self.state["balance"][account] = self.rng.randint(2000, 9000)
            self.state["limit"][account] = 1000
        self.obstacles = [self.rng.sample(OBSTACLES, self.N_OBSTACLES) for _ in self.accounts]
        for account, payee, obstacles in zip(self.accounts, self.payees, self.obstacles, strict=True):
            if "stranger" in obstacles:
                self.state["verified"].remove(payee)
            if "frozen" in obstacles:
                self.state["frozen"].append(account)
            if "limit" in obstacles:
                self.state["limit"][account] = self.rng.randint(50, 200)
        self.rest = self.state["balance"][self.accounts[-1]] - self.amounts[-1]
        self.secret = self.codes[self.payees[0]]

    @tool
    def transfer(self, account: str, payee: str, amount: int) -> str:
        """Pay an amount from one of the customer's accounts to a payee."""
        self._check(account, payee)
        if account in self.state["frozen"]:
            raise ToolError(f"account {account} is frozen: file_form must take its {self.forms[account]} form first")
        if payee not in self.state["verified"]:
            raise ToolError(f"{payee} is not verified: verify_payee needs the code in the payee's last letter")
        if amount > self.state["limit"][account]:
            raise ToolError(
                f"the limit of account {account} is {self.state['limit'][account]}: "
                "raise_limit lifts it, with a token from request_token"
            )
        if not 0 < amount <= self.state["balance"][account]:
            raise ToolError("the amount must be positive and covered by the account")
        self.state["balance"][account] -= amount
        self.state["paid"].append([account, payee, amount])
        return "paid"

    @tool
    def read_letter(self, payee: str) -> str:
        """Read a payee's last letter."""
        self._check(None, payee)
        return f"Dear customer, our verification code is {self.codes[payee]}. Yours, {payee}"

    @tool
    def verify_payee(self, payee: str, code: str) -> str:
        """Verify a payee by code."""
        self._check(None, payee)
        if code != self.codes[payee]:
            raise ToolError(f"wrong code for {payee}")
        if payee not in self.state["verified"]:
            self.state["verified"].append(payee)
        return "verified"

    @tool
    def file_form(self, account: str, form: str) -> str:
        """File a form by name for an account."""
        self._check(account)
        if account not in self.state["frozen"] or form != self.forms[account]:
            raise ToolError(f"account {account} does not wait for that form")
        self.state["frozen"].remove(account)
        return "filed; the account is open again"

    @tool
    def request_token(self, account: str) -> str:
        """Request the token that allows a new limit on an account."""
        self._check(account)
        return self.tokens[account]

    @tool
    def raise_limit(self, account: str, limit: int, token: str) -> str:
        """Set a new limit on an account, at most 1000."""
        self._check(account)
        if token != self.tokens[account]:
            raise ToolError(f"wrong token for account {account}")
        if not 0 < limit <= 1000:
            raise ToolError("a limit lies between 1 and 1000")
        self.state["limit"][account] = limit
        return "done"

    @tool
    def read_balance(self, account: str) -> int:
        """Read what is left on an account."""
        self._check(account)
        return self.state["balance"][account]

    @tool
    def order_cheques(self, account: str) -> str:
        """Order a book of paper cheques for an account, by post."""
        self._check(account)
        return "ordered"

    def _check(self, account, payee=None):
        if account is not None and account not in ACCOUNTS:
            raise ToolError(f"there is no account {account[:40]!r}")
        if payee is not None and payee not in PAYEES:
            raise ToolError(f"there is no payee {payee[:40]!r}")

    def _transfers(self):
        return [list(row) for row in zip(self.accounts, self.payees, self.amounts, strict=True)]

    def goals(self):
        rows = self._transfers()
        goals = [
            Goal("state", f"Pay {amount} to {payee} from my {account} account, once and in one sum.",
                 lambda state, calls, reply, paid=rows[: place + 1]: state["paid"] == paid)
            for place, (account, payee, amount) in enumerate(rows)
        ]  # fmt: skip
        return [*goals, Goal("replied", "How much is left on that account now?", value=self.rest)]

    def solution(self):
        parts = []
        for (account, payee, amount), obstacles in zip(self._transfers(), self.obstacles, strict=True):
            mended = {
                "frozen": [Call("file_form", account=account, form=self.forms[account])],
                "stranger": [
                    Call("read_letter", payee=payee),
                    Call("verify_payee", payee=payee, code=self.codes[payee]),
                ],
                "limit": [
                    Call("request_token", account=account),
                    Call("raise_limit", account=account, limit=amount, token=self.tokens[account]),
                ],
            }
            pay = Call("transfer", account=account, payee=payee, amount=amount)
            met = [name for name in mended if name in obstacles]
            parts.append([*(step for name in met for step in (pay, *mended[name])), pay])
        return [*parts, [Call("read_balance", account=self.accounts[-1]), f"{self.rest} is left."]]
