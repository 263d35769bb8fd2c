"""Prints BFCL's entries, one JSON object a line. Run as a script by bfcl-eval's own interpreter, never imported."""

from __future__ import annotations

import json
import os
import sys
import tempfile


def main() -> None:
    """For each category named on the command line: its entries as the package itself prepares them."""
    os.environ["BFCL_PROJECT_ROOT"] = tempfile.gettempdir()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from bfcl_eval.constants.enums import ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.model_handler.utils import convert_to_tool
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    for category in sys.argv[1:]:
        has_gold = "relevance" not in category
        gold = {row["id"]: row["ground_truth"] for row in load_ground_truth_entry(category)} if has_gold else {}
        # The model reads hints on each language's types; the checker wants the types without them.
        plain = {
            row["id"]: row["function"] for row in load_dataset_entry(category, include_language_specific_hint=False)
        }
        for entry in load_dataset_entry(category):
            tools = convert_to_tool(entry["function"], GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)
            row = {
                "id": entry["id"],
                "category": category,
                "messages": entry["question"][0],
                "tools": [tool["function"] for tool in tools],
                "function": plain[entry["id"]],
                "gold": gold.get(entry["id"]),
            }
            answers.write(json.dumps(row) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
