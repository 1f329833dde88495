"""What the benches do without vLLM: requests of a soak, its checks over a stand-in of an engine, and comparisons."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benches"))

import smollm2  # noqa: E402
import soak  # noqa: E402
import tiny_models  # noqa: E402
import traces  # noqa: E402


class Engine:
    """An engine whose tokens depend on the prompt and their position; `wrong` spoils those of crowds."""

    def __init__(self, wrong=False):
        self.running, self.wrong, self.aborted, self.resets = {}, wrong, [], 0

    def add_request(self, name, prompt, params):
        assert prompt["type"] == "token" and name not in self.running
        self.running[name] = (prompt["prompt_token_ids"], params, [])

    def abort_request(self, names):
        for name in names:
            del self.running[name]
        self.aborted += names

    def reset_prefix_cache(self):
        self.resets += 1
        return self.resets > 1

    def step(self):
        done, spoilt = [], self.wrong and len(self.running) > 1
        for name, (prompt, out, tokens) in list(self.running.items()):
            tokens.append(sum(prompt) + len(tokens) + spoilt)
            if len(tokens) == out:
                del self.running[name]
                logprobs = [{token: SimpleNamespace(logprob=-1.0)} for token in tokens]
                text = SimpleNamespace(token_ids=tokens, logprobs=logprobs)
                done.append(SimpleNamespace(request_id=name, finished=True, outputs=[text]))
        return done


def soaked(engine, turns=600):
    requests = soak.Requests(1, most_prompt=2000, most_out=40)
    made = soak.Soak(engine, requests, lambda out: out, preempted={f"r{i}" for i in range(0, 10000, 7)}, keep=5)
    for _ in range(turns):
        made.turn()
    made.drain()
    return made


def test_a_soak_counts_and_checks():
    engine = Engine()
    made = soaked(engine)
    counts = made.counts
    assert counts["cancelled"] == len(engine.aborted) > 0
    assert counts["requests"] == counts["finished"] + counts["cancelled"] and not engine.running
    assert made.check(made.undisturbed.kept) == made.check(made.disturbed.kept) == (5, 5, 5)
    assert counts == made.counts


def test_a_soak_finds_texts_that_depend_on_others(capsys):
    made = soaked(Engine(wrong=True))
    checked, equal, _ = made.check(made.undisturbed.kept)
    assert checked == 5 and equal < 5
    assert "first at token" in capsys.readouterr().out


def test_no_rest_of_a_prompt_is_one_token():
    requests = soak.Requests(2)
    shared = 0
    for _ in range(200):
        prompt, out, _ = requests.next()
        prefix = next((len(of) for of in requests.prefixes if prompt[: len(of)] == of), 0)
        shared += prefix > 0
        assert len(prompt) - prefix >= 20 and len(prompt) + out < soak.MAX_LEN
    assert 50 < shared < 150


def test_memory_that_grows_late_is_seen():
    samples = [{"allocated": 5.0, "device": 10.0 + (i > 30), "host": 100.0 + i} for i in range(40)]
    assert soak.growth(samples) == {"allocated": 0.0, "device": 1.0, "host": 20.0}
    assert soak.growth(samples[:3]) == {}


def test_a_text_may_turn_where_the_margin_is_small():
    greedy = [[1, 9.0, 2.0], [2, 9.0, 0.05], [3, 9.0, 1.0]]
    assert smollm2.compared([1, 2, 3], greedy, 0.01) == {"equal": 3, "allowed": True}
    assert smollm2.compared([1, 7, 8], greedy, 0.1) == {"equal": 1, "margin": 0.05, "allowed": True}
    assert not smollm2.compared([1, 2, 4], greedy, 0.1)["allowed"]


@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_models_are_folders(tmp_path, name):
    folder = Path(tiny_models.write(tmp_path, name))
    config = json.loads((folder / "config.json").read_text())
    assert config["num_attention_heads"] % config["num_key_value_heads"] == 0
    assert folder.name == name and config["vocab_size"] > 100000


def test_compared_says_where_texts_part_and_by_what_gap():
    first = [([1, 2, 3], [0.5, 0.25, 0.1]), ([4, 5], [1.0, 1.0])]
    other = [([1, 9, 9], []), ([4, 5], [])]
    assert traces.compared(other, first)["differ"] == [(1, 0.25)]
    assert traces.compared(first, first)["same"] == "2/2"


def test_a_worker_that_ends_closes(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text("import sys\nfor line in sys.stdin:\n    print('answer {\"asked\": 1}', flush=True)\n    break\n")
    worker = traces.Worker("CUSTOM", [], str(script))
    assert worker.ask("load") == {"asked": 1}
    with pytest.raises((SystemExit, BrokenPipeError)):
        worker.ask("smoke")
    worker.close()
