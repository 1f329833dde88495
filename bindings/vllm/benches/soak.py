"""Random arrivals, cancellations and preemptions in vLLM on attn-rs in batch-invariant mode, for a while: requests that
finished have the tokens that they have alone, and memory does not grow. Prints samples of memory, then a line of JSON.

    soak.py --model DIR --seconds 480

DIR has a `config.json` of Llama-3.1-8B's shape, of which `--layers` layers run with random weights. The cache is small,
so that requests are preempted; what they had is computed again, as a prompt.
"""

import argparse
import collections
import gc
import json
import os
import random
import sys
import time

import traces

MAX_LEN, MAX_REQUESTS, MAX_TOKENS = 4096, 64, 2048
#: by how much the last quarter may hold more than the second, in MiB
SLACK = {"allocated": 16, "device": 64, "host": 96}


class Requests:
    """Random requests: a prompt, which often begins as others do, tokens out, and steps until it is cancelled."""

    def __init__(self, seed, most_prompt=3000, most_out=256):
        self.random, self.most_prompt, self.most_out = random.Random(seed), most_prompt, most_out
        self.prefixes = [self.ids(n) for n in (64, 250, 512, 1000, 1600)]

    def ids(self, n):
        return [self.random.randrange(1000, 100000) for _ in range(n)]

    def next(self):
        draw = self.random
        first = draw.choice(self.prefixes) if draw.random() < 0.5 else []
        # few are long; none ends within tokens of a prefix, so that no rest of a prompt is one token
        own = 20 + int((self.most_prompt - len(first) - 20) * draw.random() ** 3)
        cancelled_after = draw.randint(1, 200) if draw.random() < 0.15 else None
        return first + self.ids(own), draw.randint(16, self.most_out), cancelled_after


class Reservoir:
    """A sample of what is shown to it, each with the same chance."""

    def __init__(self, size, seed=0):
        self.size, self.seen, self.kept, self.random = size, 0, [], random.Random(seed)

    def show(self, item):
        self.seen += 1
        if len(self.kept) < self.size:
            self.kept.append(item)
        elif (at := self.random.randrange(self.seen)) < self.size:
            self.kept[at] = item


class Soak:
    """Drives an engine of vLLM by steps. `params(out)` makes the parameters of a request."""

    def __init__(self, engine, requests, params, preempted, keep):
        self.engine, self.requests, self.params = engine, requests, params
        #: names of requests that were preempted
        self.preempted = preempted
        self.running, self.counts = {}, {"requests": 0, "finished": 0, "cancelled": 0, "tokens": 0}
        self.undisturbed, self.disturbed = Reservoir(keep), Reservoir(keep)
        self.target, self.number = 1, 0

    def add(self, prompt, out, cancelled_after=None):
        self.number += 1
        name = f"r{self.number}"
        self.engine.add_request(name, {"type": "token", "prompt_token_ids": prompt}, self.params(out))
        self.running[name] = [prompt, out, cancelled_after]
        return name

    def turn(self, arrivals=True):
        """Some arrivals, some cancellations, and a step. Returns the requests that finished in it."""
        draw = self.requests.random
        if draw.random() < 0.005:
            # crowds come and go
            self.target = draw.randint(1, 2 * MAX_REQUESTS)
        while arrivals and len(self.running) < self.target and draw.random() < 0.6:
            self.add(*self.requests.next())
            self.counts["requests"] += 1
        for name, request in list(self.running.items()):
            if request[2] is not None:
                request[2] -= 1
                if request[2] <= 0:
                    self.engine.abort_request([name])
                    del self.running[name]
                    self.counts["cancelled"] += 1
        done = [output for output in self.engine.step() if output.finished and output.request_id in self.running]
        for output in done:
            prompt, out, _ = self.running.pop(output.request_id)
            tokens, logprobs = read(output)
            self.counts["finished"] += 1
            self.counts["tokens"] += len(tokens)
            kept = self.disturbed if output.request_id in self.preempted else self.undisturbed
            kept.show((prompt, out, tokens, logprobs))
        return done

    def drain(self):
        while self.running:
            self.turn(arrivals=False)

    def alone(self, prompt, out):
        """The tokens of a request with nothing beside it, and nothing of it in the cache."""
        for _ in range(8):
            if self.engine.reset_prefix_cache():
                break
            # the last step of the request before is still under way
            self.engine.step()
        else:
            raise SystemExit("the cache of prefixes is in use, though no request runs")
        name = self.add(prompt, out)
        while name in self.running:
            for output in self.engine.step():
                if output.finished and output.request_id == name:
                    del self.running[name]
                    return read(output)
        raise AssertionError("a request ends with its output")

    def check(self, kept):
        """How many kept requests were checked, have the same tokens, and the same log-probabilities to the bit."""
        equal = same_bits = 0
        for prompt, out, tokens, logprobs in kept:
            alone, alone_logprobs = self.alone(prompt, out)
            equal += alone == tokens
            same_bits += alone_logprobs == logprobs
            if alone != tokens:
                at = next(i for i, (a, b) in enumerate(zip(alone, tokens)) if a != b)
                print(f"differs: prompt {len(prompt)}, out {out}, first at token {at}", flush=True)
        return len(kept), equal, same_bits


def read(output):
    of = output.outputs[0]
    return list(of.token_ids), [at[token].logprob for token, at in zip(of.token_ids, of.logprobs or ())]


def growth(samples):
    """By how much the most of the last quarter is above the most of the second, by what is measured."""
    quarter = len(samples) // 4
    if quarter == 0:
        return {}
    most = lambda part, key: max(sample[key] for sample in part)  # noqa: E731
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return {key: round(most(late, key) - most(early, key), 1) for key in SLACK}


def of_process():
    """Bytes of device memory that this process holds; where NVML does not say, those that all hold."""
    import torch
    from vllm.third_party import pynvml

    pynvml.nvmlInit()
    devices = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    running = [process for device in devices for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device)]
    free, total = torch.cuda.mem_get_info()
    return sum(process.usedGpuMemory or 0 for process in running if process.pid == os.getpid()) or total - free


def memory(since):
    import torch

    with open("/proc/self/statm") as file:
        host = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    mib = lambda n: round(n / 2**20, 1)  # noqa: E731
    return {
        "s": round(time.monotonic() - since),
        "allocated": mib(torch.cuda.memory_allocated()),
        "device": mib(of_process()),
        "host": mib(host),
    }


def count_preemptions():
    """Has the scheduler of vLLM count the preemptions of each request."""
    from vllm.v1.core.sched.scheduler import Scheduler

    preempt, counts = Scheduler._preempt_request, collections.Counter()

    def noted(self, request, timestamp):
        # vLLM adds a random part to the name of a request
        counts[request.request_id.rpartition("-")[0] or request.request_id] += 1
        return preempt(self, request, timestamp)

    Scheduler._preempt_request = noted
    return counts


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="CUSTOM")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--every", type=float, default=15, help="seconds between samples of memory")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--cache-gib", type=float, default=0.5)
    parser.add_argument("--check", type=int, default=40, help="requests to run alone; as many that were preempted")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = arguments()
    args.smoke, args.traces, args.dtype = True, "", "bfloat16"
    preempted = count_preemptions()
    llm, _ = traces.load(
        args,
        args.backend,
        enable_prefix_caching=True,
        max_model_len=MAX_LEN,
        max_num_seqs=MAX_REQUESTS,
        max_num_batched_tokens=MAX_TOKENS,
    )
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    of_all = {"temperature": 0.0, "ignore_eos": True, "detokenize": False, "logprobs": 0}
    of_all["output_kind"] = RequestOutputKind.FINAL_ONLY

    def params(out):
        return SamplingParams(max_tokens=out, **of_all)

    soak = Soak(llm.llm_engine, Requests(args.seed), params, preempted, args.check)
    start, samples = time.monotonic(), []
    while (now := time.monotonic() - start) < args.seconds:
        soak.turn()
        if now >= args.every * (len(samples) + 1):
            gc.collect()
            samples.append(memory(start))
            print(json.dumps(samples[-1] | soak.counts | {"preemptions": preempted.total()}), flush=True)
    soak.drain()
    counts = dict(soak.counts)
    checked, equal, same_bits = soak.check(soak.undisturbed.kept)
    again, equal_again, _ = soak.check(soak.disturbed.kept)
    grown = growth(samples)
    leaks = [key for key, mib in grown.items() if mib > SLACK[key]]
    row = counts | {
        "preemptions": preempted.total(),
        "checked": checked,
        "equal": equal,
        "same_bits": same_bits,
        "preempted_checked": again,
        "preempted_equal": equal_again,
        "first": samples[0] if samples else None,
        "last": samples[-1] if samples else None,
        "grown": grown,
        "leaks": leaks,
    }
    print(json.dumps(row), flush=True)
    sys.exit(1 if leaks or equal < checked or equal_again < again or not checked else 0)


if __name__ == "__main__":
    traces.settle_environment()
    os.environ.setdefault("VLLM_BATCH_INVARIANT", "1")
    main()
