from spade_environments import TextEnv

import re

NAMES = (
    "Abel", "Bruna", "Caro", "Dario", "Edda", "Falk", "Greta", "Henk", "Ilse", "Jarl", "Kaja", "Lino",
    "Mira", "Nilo", "Oda", "Pavel", "Quirin", "Rosa", "Sven", "Tilda", "Ugo", "Vera", "Wim", "Yara",
)  # fmt: skip


class IslandLiars(TextEnv):
    """Find every liar on an island by asking its people about each other, with few questions."""

    max_turns = 20
    observability = "partial"
    hidden = ("secret",)
    N_PEOPLE = 10  # islanders; at most 17, so that the questions fit the turns
    PATIENCE = 2  # questions that one islander answers
    SPARE = 3  # questions beyond the fewest that can settle it

    def reset(self, seed):
        self.people = self.rng.sample(NAMES, self.N_PEOPLE)
        self.liars = set(self.rng.sample(self.people, self.rng.randint(2, (self.N_PEOPLE - 1) // 2)))
        self.secret = " ".join(sorted(self.liars))
        self.asked = dict.fromkeys(self.people, 0)
        self.left = self.N_PEOPLE - 1 + self.SPARE
        return (
            f"On this island live {', '.join(self.people)}.\n"
            "Each of them either always lies or never lies. More than half never lie; at least two always lie.\n"
            "All of them know each other. Find every liar.\n"
            f"ask NAME about NAME: what the first says of the second. You have {self.left} questions, and each "
            f"islander answers at most {self.PATIENCE}.\n"
            "accuse NAME NAME ...: name all the liars and nobody else. You can accuse only once."
        ), {}

    def step(self, action):
        words = re.findall(r"[a-z]+", action[:400].lower())
        people = {name.lower(): name for name in self.people}
        named = [people[word] for word in words[1:] if word in people]
        if words[:1] == ["accuse"] and named and len(named) == len(words) - 1:
            if set(named) == self.liars:
                return "Those are the liars, all of them.", 1.0, True, False, {}
            return "That is not the set of liars.", 0.0, True, False, {}
        if words[:1] == ["ask"] and len(words) == 4 and words[2] == "about" and len(named) == 2:
            return self._ask(*named), 0.0, False, False, {}
        return "Write: ask NAME about NAME, or: accuse NAME NAME ...", 0.0, False, False, {}

    def _ask(self, witness, subject):
        if witness == subject:
            return "Nobody here speaks about themselves."
        if self.left == 0:
            return "You have no questions left. Accuse."
        if self.asked[witness] == self.PATIENCE:
            return f"{witness} does not answer any more."
        self.left -= 1
        self.asked[witness] += 1
        lies = (subject in self.liars) != (witness in self.liars)
        return f'{witness} says: "{subject} {"always lies" if lies else "never lies"}." Questions left: {self.left}.'

    def solution(self):
        pairs = zip(self.people, self.people[1:], strict=False)
        return [*(f"ask {witness} about {subject}" for witness, subject in pairs), f"accuse {self.secret}"]
