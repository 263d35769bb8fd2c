"""A pretended bfcl-eval: the few functions of the package that our scripts call, over entries of its forms.

It stands where the package's environment would, so that conversations, grades and their ends are tested without it;
that the package's own functions are called rightly is what `make test-eval` shows.
"""

from __future__ import annotations

import sys
import venv
from pathlib import Path

from spade_evals.suites.bfcl.environment import bfcl_folder

_UTILS = """
import json
from pathlib import Path
AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}}
TOOL = {"name": "add", "description": "", "parameters": AMOUNT}
LATER = TOOL | {"name": "take"}
def load_dataset_entry(category, include_prereq=True, include_language_specific_hint=True):
    if category == "multi_turn_miss_func":
        turns = [[{"role": "user", "content": "Add 2."}], []]
        held = {"1": [dict(LATER)]}
        return [{"id": category + "_0", "question": turns, "function": [dict(TOOL)], "missed_function": held}]
    if category == "memory_kv":
        session = {"id": "memory_kv_prereq_0-student-0", "question": [[{"role": "user", "content": "I am Ada."}]]}
        asked = {"id": "memory_kv_0-student-0", "question": [[{"role": "user", "content": "Who am I?"}]]}
        more = {"function": [dict(TOOL)], "scenario": "student", "involved_classes": ["Memory"]}
        asked["depends_on"] = [session["id"]]
        return [one | more for one in ([session, asked] if include_prereq else [asked])]
    question = [[{"role": "user", "content": "Add 2."}]]
    return [{"id": category + "_0", "question": question, "function": [dict(TOOL)]}]
def load_ground_truth_entry(category):
    gold = {"multi_turn_miss_func": [["add(amount=2)"], ["take(1)"]], "memory_kv": ["Ada"]}
    return [{"id": "another", "ground_truth": gold.get(category, [{"add": {"amount": [2]}}])}]
def is_memory_prereq(name): return "prereq" in name
def is_memory(name): return "memory" in name
def get_directory_structure_by_id(name): return "agentic/memory"
def populate_initial_settings_for_memory_test_cases(entries, folder):
    for entry in entries: entry["initial_config"] = {"Memory": {"model_result_dir": folder}}
"""
_HANDLER = """
import json
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
from bfcl_eval import utils
class BaseHandler:
    def __init__(self, model_name, temperature, registry_name, is_fc_model): self.name = model_name
    def inference(self, entry, include_input_log, exclude_state_log):
        data, turns = {"message": [], "tools": [{"function": one} for one in entry["function"]]}, []
        memory = None
        if utils.is_memory(entry["id"]):
            folder = entry["initial_config"]["Memory"]["model_result_dir"] / "agentic/memory" / "memory_snapshot"
            memory = folder / "student_final.json"
            known = memory.read_text() if memory.exists() else "nothing"
            entry["question"][0].insert(0, {"role": "system", "content": "You know: " + known})
        for number, asked in enumerate(entry["question"]):
            held = entry.get("missed_function", {}).get(str(number))
            if held:
                data["tools"] = [*data["tools"], *({"function": one} for one in held)]
                asked = [{"role": "user", "content": "What about now?"}]
            data["message"].extend(asked)
            turns.append([])
            while True:
                answer, _ = self._query_FC(data)
                read = self._parse_query_response_FC(answer)
                data["message"].append(read["model_responses_message_for_chat_history"])
                turns[-1].append(read["model_responses"])
                if isinstance(read["model_responses"], str): break
                calls = self.decode_execute(read["model_responses"], False)
                results = execute_multi_turn_func_call(calls, self.name, entry["id"])
                for result, call in zip(results, read["tool_call_ids"]):
                    data["message"].append({"role": "tool", "content": result, "tool_call_id": call})
        if utils.is_memory_prereq(entry["id"]):
            memory.write_text(turns[-1][-1])
        return turns, {}
class OpenAICompletionsHandler(BaseHandler):
    def __init__(self, *arguments): raise RuntimeError("a client is opened here")
    def decode_execute(self, result, has_tool_call_tag):
        calls = [(name, json.loads(given)) for call in result for name, given in call.items()]
        return [f"{name}({','.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in calls]
"""
_EXECUTE = """
class Till:
    def __init__(self): self.total = 0
    def add(self, amount):
        if amount == 13:
            while True: pass
        if amount == 14: raise SystemExit("the end")
        self.total += amount
        return str(self.total)
    def take(self, amount): return self.add(-amount)
def execute_multi_turn_func_call(calls, model_name, identity):
    name = f"{model_name}_{identity}_till"
    till = globals().setdefault(name, Till())
    found = []
    for call in calls:
        try: found.append(eval("till." + call, {"till": till}))
        except Exception as error: found.append(f"Error during execution: {error}")
    return found
"""
_RUNNER = """
from enum import Enum
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry
Language, ReturnFormat = (Enum(name, ["PYTHON", "JAVA", "JAVASCRIPT"]) for name in ("Language", "ReturnFormat"))
def _evaluate_single_multi_turn_entry(handler, identity, result, gold, entry, model, category):
    del entry["function"]
    if type(result) is not list:
        return {"valid": False, "error": {"error_type": "multi_turn:inference_error"}}
    for turn, right in zip(result, gold):
        for step in turn:
            if isinstance(step, list):
                execute_multi_turn_func_call(handler.decode_execute(step, False), model, identity)
        execute_multi_turn_func_call(right, model + "_ground_truth", identity)
    totals = [execute_multi_turn_func_call(["add(0)"], name, identity) for name in (model, model + "_ground_truth")]
    return {"valid": True} if totals[0] == totals[1] else {"valid": False, "error": {"error_type": "multi_turn:state"}}
def _evaluate_single_agentic_entry(handler, identity, result, gold, entry, model, category):
    return {"valid": gold[0] in result[0][-1], "error": {"error_type": "agentic:answer_not_found"}}
def _evaluate_single_ast_entry(handler, identity, result, gold, entry, model, category, language, form):
    plain = language.name == "PYTHON" and MODEL_CONFIG_MAPPING[model].underscore_to_dot
    return {"valid": plain and result == [{"add": '{"amount": 2}'}], "error": ["said"], "error_type": "ast:wrong"}
"""
_FILES = {
    "utils.py": _UTILS,
    "constants/enums.py": "class ModelStyle:\n    OPENAI_COMPLETIONS = 1\n",
    "constants/type_mappings.py": "GORILLA_TO_OPENAPI = {}\n",
    "model_handler/utils.py": "def convert_to_tool(tools, mapping, style): return [{'function': t} for t in tools]\n",
    "model_handler/api_inference/openai_completion.py": _HANDLER,
    "eval_checker/multi_turn_eval/multi_turn_utils.py": _EXECUTE,
    "eval_checker/eval_runner.py": _RUNNER,
}


def pretend(folder: Path, monkeypatch) -> None:
    """Make the environment below `folder`, where the suite then finds it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    place = bfcl_folder()
    venv.EnvBuilder(symlinks=True).create(place)
    package = place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "bfcl_eval"
    for name, source in _FILES.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    (place / "READY").touch()
