"""lm-eval's `local-completions` on two small tasks: the log-likelihoods that it sums are, to the last bit it keeps, those of
the model's own steps, one token after another.

The tokens decide: it encodes context and continuation as one text, and cuts that where the context alone would end. The
sum over two texts that are encoded separately, as those of /v1/score are, differs wherever a token of the whole text
lies across the border. `test_tokens_at_the_border` has such a text, and shows that the tokens are all of the
difference. (A prompt of tokens is taken as it is, so no first token of the model's comes before it, as comes before a
text.)"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import said
from client import call, complete_ok
from conftest import CONTEXT, TALK

LM_EVAL = Path(sys.executable).parent / "lm_eval"
DOCUMENTS = ["hello there, 春風花月 and more of it", "a  b\n\nc don't (stop) 0123", "one\ttwo 😀 three é"]
CHOICES = [{"question": "spring is", "choices": [" 花", " 月 and 山", " water"], "answer": 0},
           {"question": "hello 春", "choices": ["風", "abc", "  x"], "answer": 1}]
TASKS = {
    "talk_perplexity": """task: talk_perplexity
dataset_path: json
dataset_kwargs: {data_files: {test: DOCUMENTS}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: byte_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]
""",
    "talk_choices": """task: talk_choices
dataset_path: json
dataset_kwargs: {data_files: {test: CHOICES}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: answer
doc_to_choice: "{{choices}}"
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
}


@pytest.fixture(scope="session")
def tokenizer(folder):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / TALK / "tokenizer.json"))


def write_tasks(path):
    documents, choices = path / "documents.jsonl", path / "choices.jsonl"
    documents.write_text("".join(json.dumps({"text": d}) + "\n" for d in DOCUMENTS))
    choices.write_text("".join(json.dumps(c) + "\n" for c in CHOICES))
    for name, text in TASKS.items():
        (path / f"{name}.yaml").write_text(text.replace("DOCUMENTS", str(documents)).replace("CHOICES", str(choices)))


@pytest.fixture(scope="session")
def samples(server, folder, tmp_path_factory):
    """{task: the samples that lm-eval writes down}"""
    path = tmp_path_factory.mktemp("lm_eval")
    write_tasks(path)
    arguments = (f"model={TALK},base_url=http://127.0.0.1:{server.port}/v1/completions,tokenizer={folder / TALK},"
                 f"tokenizer_backend=huggingface,num_concurrent=1,max_retries=1,max_length={CONTEXT - 1}")
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    run = subprocess.run([LM_EVAL, "--model", "local-completions", "--model_args", arguments, "--tasks", ",".join(TASKS),
                          "--include_path", path, "--output_path", path / "out", "--log_samples", "--batch_size", "2"],
                         capture_output=True, text=True, timeout=600,
                         env=environment | {"HF_HOME": str(path), "HF_HUB_OFFLINE": "1", "HOME": str(path), "OPENAI_API_KEY": "none"})
    assert run.returncode == 0, run.stderr[-4000:]
    (results,) = (path / "out").rglob("results_*.json")
    assert set(json.loads(results.read_text())["results"]) == set(TASKS)
    found = {}
    for task in TASKS:
        (file,) = (path / "out").rglob(f"samples_{task}_*.jsonl")
        found[task] = sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda s: s["doc_id"])
    return found


def steps(port, ids, first):
    """The log-probability of each token from `first` on, of a step of its own: it is forced, which its figure does not see."""
    total = []
    for i in range(first, len(ids)):
        answer = complete_ok(port, model=TALK, prompt=ids[:i], max_tokens=1, logprobs=0, temperature=0,
                             logit_bias={str(ids[i]): 100})
        (logprob,) = answer["choices"][0]["logprobs"]["token_logprobs"]
        total.append(logprob)
    return total


def echoed(port, ids, first):
    answer = complete_ok(port, model=TALK, prompt=ids, max_tokens=0, logprobs=0, echo=True)
    return answer["choices"][0]["logprobs"]["token_logprobs"][first:]


def check_sum(port, ids, first, told):
    """Its answer is a sum of numbers that JSON has in full: added in the same order it is the same number."""
    one_by_one = steps(port, ids, first)
    assert one_by_one == echoed(port, ids, first)
    assert float(told) == sum(one_by_one)
    assert all(math.isfinite(x) and x < 0 for x in one_by_one)


def test_whole_documents(port, samples, tokenizer):
    end = tokenizer.token_to_id("<|im_end|>")  # stands before the first token
    for document, sample in zip(DOCUMENTS, samples["talk_perplexity"], strict=True):
        ids = [end, *tokenizer.encode(document, add_special_tokens=False).ids]
        ((told, *_),) = sample["resps"]
        check_sum(port, ids, 1, told[0] if isinstance(told, list) else told)


def test_choices(port, samples, tokenizer):
    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    for row, sample in zip(CHOICES, samples["talk_choices"], strict=True):
        for choice, ((told, *_),) in zip(row["choices"], sample["resps"], strict=True):
            context = encode(row["question"])
            ids = context + encode(row["question"] + choice)[len(context):]
            check_sum(port, ids, len(context), told[0] if isinstance(told, list) else told)


def test_tokens_at_the_border(port, tokenizer):
    """A text in two parts whose tokens are others than the whole one's: each sum is its own tokens', and they differ."""
    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    cut = next((d, i) for d in DOCUMENTS for i in range(1, len(d)) if encode(d[:i]) + encode(d[i:]) != encode(d))
    text, i = cut
    whole, parts = encode(text), encode(text[:i]) + encode(text[i:])
    assert whole != parts and tokenizer.decode(whole) == tokenizer.decode(parts) == text
    for ids in (whole, parts):
        assert steps(port, ids, 1) == echoed(port, ids, 1)
    assert sum(echoed(port, whole, 1)) != sum(echoed(port, parts, 1))
    reply = call(port, "POST", "/v1/score", {"model": TALK, "prompt": text[:i], "completion": text[i:]})
    assert reply.status == 200, reply.text
    n = len(encode(text[i:]))  # that route encodes the completion separately, as if it had been generated
    assert len(reply.json()["surprise"]) == n
    assert math.isclose(reply.json()["nats_per_token"], -sum(echoed(port, parts, len(parts) - n)) / n, rel_tol=1e-6)


def test_an_answer_that_ends_at_once_keeps_its_token(port, tokenizer):
    """lm-eval drops the one token that is generated after a prompt; without an end token in the list it would drop the
    prompt's last one instead."""
    ids = tokenizer.encode(DOCUMENTS[0], add_special_tokens=False).ids
    end = tokenizer.token_to_id("<|im_end|>")
    fields = {"model": TALK, "prompt": ids, "max_tokens": 1, "echo": True, "logprobs": 1, "seed": said.SEED}
    for bias in ({}, {"logit_bias": {str(end): 100}}):
        choice = complete_ok(port, **fields, **bias)["choices"][0]
        assert len(choice["logprobs"]["token_logprobs"]) == len(ids) + 1
        assert choice["finish_reason"] == ("stop" if bias else "length")
