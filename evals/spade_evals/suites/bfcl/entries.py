"""Prints BFCL's entries, one JSON object a line. Run as a script by bfcl-eval's own interpreter, never imported."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """For each category named on the command line: its entries as the package itself prepares them."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from bfcl_eval.constants.enums import ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.model_handler.utils import convert_to_tool
    from bfcl_eval.utils import is_memory_prereq, load_dataset_entry, load_ground_truth_entry

    for category in sys.argv[1:]:
        entries = [entry for entry in load_dataset_entry(category) if not is_memory_prereq(entry["id"])]
        # The package pairs them by their order: some answers have ids of another form.
        gold = [None] * len(entries) if "relevance" in category else load_ground_truth_entry(category)
        if len(gold) != len(entries):
            sys.exit(f"{category} has {len(entries)} entries and {len(gold)} answers")
        for entry, answer in zip(entries, gold, strict=True):
            held = [function for functions in entry.get("missed_function", {}).values() for function in functions]
            tools, later = (
                [tool["function"] for tool in convert_to_tool(one, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)]
                for one in (entry["function"], held)
            )
            row = {
                "id": entry["id"],
                "category": category,
                "messages": entry["question"][0],
                "tools": tools,
                "gold": None if answer is None else answer["ground_truth"],
                "later": later,
                "sessions": entry.get("depends_on", []),
            }
            answers.write(json.dumps(row) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
