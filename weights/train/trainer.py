"""The training loop the models share: optimizers, learning rate, checkpoints, log.

A recipe is an object with
  model                    the module; its parameters are trained
  batches(rng)             one epoch: a list of batches in random order
  count(batch)             tokens in a batch
  loss(batch)              mean nats a predicted token, as a tensor
  validate()               the figure on held-out data, of the weights the model has then
  report                   the name of that figure in the log
  config, vocabulary       of the exported model; vocabulary may be None
  data                     only where it reads some: arrays with the training data, so that a run goes on with the data it had
  export(folder)           only where the model is written other than by export.py

The run is resumable: RUN_DIR keeps the newest checkpoint, and the same command goes on from it. RUN_DIR/arguments.json has the
arguments; a run is not resumed with others that change its result. Ctrl-C and SIGTERM end the
run after the step that it is at, with a checkpoint; the second signal ends the process at once. RUN_DIR/best.pt has the weights of
the best figure on held-out data. --best exports them in place of the last ones, and --patience ends a run whose figure
gets no better. The learning rate is
constant after the warm-up and falls linearly to zero over the last part of --tokens. So a run may be resumed with
another --tokens before the fall begins. With --minutes the process ends after
that time with its figures and weights written, after any number of tokens. The rate then follows the clock from the end
of the first step, which may have compiled the model. With --ema the
figures and the export are those of an exponential moving average of the weights. The learning curve
is drawn to RUN_DIR/curve.png at every validation. --tensorboard also writes the log to RUN_DIR/tensorboard.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import time

import numpy as np
import torch
from tqdm import tqdm

from curve import draw_curves
from export import export_model, load_exported
from muon import Muon, move_towards
from unfit import Unfit

# A run may be resumed with other values of these arguments: they change the time and the place of the training, not its result. Paths
# are not compared either, because a run may go on with its data on another machine (digest_of).
FREE = {"best", "compile", "cuda_graphs", "device", "minutes", "patience", "stop_after", "tensorboard", "threads", "tokens",
        "validate_every"}
RECORD_SECONDS = 60  # at least so often the log has a record
FILES = ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "generation_config.json")  # of a model
MOST_THREADS = max(16, 4 * (os.cpu_count() or 1))
BEGUN = time.time()  # of this process, as far as --minutes goes


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Every option with its default, unless that is nothing."""

    def _get_help_string(self, action):
        silent = action.default is None or action.default is False or action.default == []
        return action.help if silent else super()._get_help_string(action)


def free_threads() -> int:
    """The number of idle cores of this process, and at least half of its cores. Threads that wait for each other are slow
    where other programs take some of their cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # of a container; "max" is no number
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return max(1, cores // 2, cores - round(os.getloadavg()[0]))


def add_arguments(p: argparse.ArgumentParser, tokens: float, batch_tokens: int, head_lr: float, data: bool = True):
    """data: whether the recipe reads some."""
    p.formatter_class = Help
    if data:
        p.add_argument("--data", type=pathlib.Path, required=True, help="training data")
    p.add_argument("--run", type=pathlib.Path, required=True, help="folder of checkpoints and log")
    p.add_argument("--init", type=pathlib.Path, help="begin with the weights of this exported model")
    p.add_argument("--out", type=pathlib.Path, help="export the weights here when done")
    p.add_argument("--tokens", type=float, default=tokens, help="tokens to train on")
    p.add_argument("--minutes", type=float, help="time from start to export, in place of --tokens")
    p.add_argument("--batch-tokens", type=int, default=batch_tokens, help="tokens of a step")
    p.add_argument("--muon-lr", type=float, default=0.02, help="hidden matrices")
    p.add_argument("--adam-lr", type=float, default=0.003, help="embeddings, norms, biases")
    p.add_argument("--head-lr", type=float, default=head_lr, help="the head")
    p.add_argument("--warmup", type=float, default=0.01, help="part of the run")
    p.add_argument("--decay", type=float, default=0.4, help="part of the run")
    p.add_argument("--seed", type=int, default=1, help="of the first weights and of the order of the data")
    p.add_argument("--threads", type=int, help="of a CPU; a run that is resumed has its own number (default: the idle cores)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="where PyTorch computes")
    p.add_argument("--ema", type=float, default=0.0, help="decay a step of the averaged weights; 0: no average")
    p.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE",
                   help="a value of the config, such as n_layers=4 or mixer=softmax")
    p.add_argument("--dropout", type=float, default=0.0, help="on the residual branches")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=hasattr(torch, "compile"), help="fuse operations")
    p.add_argument("--cuda-graphs", action="store_true", help="with --compile on a GPU: a step is few launches; takes more memory")
    p.add_argument("--validate-every", type=int, default=500, help="steps")
    p.add_argument("--best", action="store_true", help="export the weights of the best figure, not the last ones")
    p.add_argument("--patience", type=int, help="end after so many figures in a row that are no better; exports the best weights")
    p.add_argument("--tensorboard", action="store_true", help="also write the log for TensorBoard (the package tensorboard), to RUN/tensorboard")
    p.add_argument("--stop-after", type=float, default=math.inf, help="seconds; for trials")


def add_sizes(p: argparse.ArgumentParser, layers: int, width: int, heads: int):
    p.add_argument("--layers", type=int, default=layers, help="layers")
    p.add_argument("--width", type=int, default=width, help="numbers of a row between layers, a multiple of --heads")
    p.add_argument("--heads", type=int, default=heads, help="heads of a layer")


def check_range(args, name: str, least: int, most: int):
    if not least <= getattr(args, name) <= most:
        raise Unfit(f"--{name.replace('_', '-')} {getattr(args, name)} is not from {least} to {most}")


def check_sizes(args):
    """The server's limits (docs/weights-format.md)."""
    for name, least, most in (("layers", 1, 256), ("heads", 1, 1024), ("width", 2, 65536)):
        check_range(args, name, least, most)
    if args.width % args.heads:
        raise Unfit(f"--width {args.width} is not a multiple of --heads {args.heads}")


def compile_options(args, dynamic: bool | None = None) -> dict:
    """Of torch.compile. dynamic: whether the batches have many shapes."""
    return {"dynamic": dynamic, "mode": "reduce-overhead" if args.cuda_graphs else None}


def send(array: np.ndarray, device: str) -> torch.Tensor:
    """The array on the device. A GPU fetches it when it comes to it, and the host does not wait."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if torch.device(device).type == "cuda" else tensor.to(device)


def sizes_of(args) -> dict:
    return {"n_layers": args.layers, "n_heads": args.heads, "d_model": args.width}


def make_optimizers(model: torch.nn.Module, args) -> list[torch.optim.Optimizer]:
    qkv, matrices, head, classes, rest = [], [], [], [], []
    class_lr = getattr(args, "class_lr", None)
    for name, p in model.named_parameters():
        if not p.requires_grad:  # drawn once, as hashes are
            continue
        if name.startswith("layers.") and p.ndim == 2 and "conv" not in name and not name.endswith("r_k"):
            (qkv if "qkv" in name else matrices).append(p)
        elif name.startswith("head."):
            head.append(p)
        else:
            (classes if name == "embed.class.weight" and class_lr else rest).append(p)
    muon = Muon([{"params": qkv, "blocks": 3}, {"params": matrices}], lr=args.muon_lr, weight_decay=0.01)
    groups = [{"params": rest}, {"params": head, "lr": args.head_lr}]
    if classes:
        groups.append({"params": classes, "lr": class_lr})
    adam = torch.optim.AdamW(groups, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon, adam]


def rate(progress: float, warmup: float, decay: float) -> float:
    return min(1.0, progress / warmup if warmup else 1.0, max(0.0, (1 - progress) / decay))


class Average:
    """An exponential moving average of the parameters; with decay 0 it equals them."""

    def __init__(self, model: torch.nn.Module, decay: float):
        self.decay = decay
        self.parameters = list(model.parameters()) if decay else []
        self.means = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int):
        if self.parameters:  # a young average forgets its start faster
            move_towards(self.means, self.parameters, 1 - min(self.decay, step / (step + 10)))

    @torch.no_grad()
    def swap(self):
        for p, mean in zip(self.parameters, self.means):
            kept = p.clone()
            p.copy_(mean)
            mean.copy_(kept)

    @contextlib.contextmanager
    def in_place(self):
        """The model has the averaged weights inside the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()


class Stopped(Exception):
    def __init__(self, text: str, number: int):
        super().__init__(text)
        self.signal = number


class Stop:
    """What signals ask for. The first SIGINT or SIGTERM sets `signal`, for the loop to end at the end of a step; from
    then on, and outside the block, signals have their earlier handlers."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.signal, self.before = None, {}

    def __enter__(self):
        heard = [number for number in self.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup's stay ignored
        self.signal, self.before = None, {number: signal.signal(number, self.take) for number in heard}

    def take(self, number: int, _frame):
        self.signal = number
        self.give_back()
        print("stopping after this step; once more stops at once", file=sys.stderr, flush=True)

    def give_back(self):
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def __exit__(self, *_error):
        self.give_back()


stop = Stop()


def digest_of(arrays: list) -> str:
    """Of numpy arrays and tensors."""
    digest = hashlib.sha256()
    for array in arrays:
        array = array.cpu().numpy() if isinstance(array, torch.Tensor) else array
        digest.update(f"{array.dtype} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def written(value) -> object:
    """An argument as the run folder records it."""
    plain = isinstance(value, (int, float, str, bool, list)) or value is None
    return value if plain and value != math.inf else str(value)


def check_same_arguments(path: pathlib.Path, args):
    """A run that goes on is the run that began."""
    if not path.exists():  # of an earlier version
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    for name, value in sorted(vars(args).items()):
        if name in before and name not in FREE and not isinstance(value, pathlib.Path) and before[name] != written(value):
            raise Unfit(f"{path.parent} holds a run with --{name.replace('_', '-')} {before[name]}, not {written(value)}: "
                        "give its values, or choose another --run")


def set_threads(args):
    """The number decides in which order PyTorch adds, so a run that goes on has the number with which it began."""
    path = args.run / "arguments.json"
    if args.threads is None and path.exists() and (args.run / "checkpoint.pt").exists():
        args.threads = json.loads(path.read_text(encoding="utf-8")).get("threads")
    if args.threads is None:
        args.threads = free_threads()
    torch.set_num_threads(args.threads)


class Run:
    """The content of a checkpoint, and the clock and log of this process."""

    def __init__(self, recipe, args):
        self.recipe, self.args = recipe, args
        self.optimizers = make_optimizers(recipe.model, args)
        self.average = Average(recipe.model, args.ema)
        self.data = digest_of(getattr(recipe, "data", []))
        self.base_rates = [[g["lr"] for g in o.param_groups] for o in self.optimizers]
        # startup: seconds until the first step of a process was done. closing: seconds from the last step to the end.
        # best: the best figure so far. stale: the number of figures after it that were no better.
        self.counters = {"tokens": 0, "step": 0, "epoch": 0, "batch": 0, "seconds": 0.0, "startup": 0.0, "closing": 0.0,
                         "best": None, "stale": 0}
        args.run.mkdir(parents=True, exist_ok=True)
        self.path, self.best_path = args.run / "checkpoint.pt", args.run / "best.pt"
        self.load()
        self.record_arguments()
        self.log_file = open(args.run / "log.jsonl", "a", encoding="utf-8")
        # Records of steps after the checkpoint come again: TensorBoard drops the first ones.
        self.board = args.tensorboard and summary_writer()(str(args.run / "tensorboard"), purge_step=self.counters["step"] + 1)
        self.start, self.start_tokens, self.last_save = time.time(), self.counters["tokens"], time.time()
        self.last_record = self.start
        self.start_seconds, self.start_startup = self.counters["seconds"], self.counters["startup"]
        self.first_step = self.counters["step"] + 1
        self.losses = []  # of the steps since the last record, on the device
        self.bar = self.make_bar()

    def make_bar(self) -> tqdm:
        """With --minutes it shows the time, else the tokens."""
        if self.args.minutes:
            return tqdm(total=round(60 * self.args.minutes), initial=round(self.start_seconds), unit="s", disable=None,
                        bar_format="{l_bar}{bar}| {n_fmt} of {total_fmt} s{postfix}")
        return tqdm(total=round(self.args.tokens), initial=self.start_tokens, unit="token", unit_scale=True, smoothing=0.05,
                    disable=None)

    def show(self):
        self.bar.update(round(self.counters["seconds"] if self.args.minutes else self.counters["tokens"]) - self.bar.n)

    def record_arguments(self):
        values = {name: written(value) for name, value in sorted(vars(self.args).items())}
        (self.args.run / "arguments.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

    def load(self):
        if self.path.exists():
            check_same_arguments(self.args.run / "arguments.json", self.args)
        if not self.path.exists():
            self.best_path.unlink(missing_ok=True)
            if self.args.init:
                load_exported(self.args.init, self.recipe.model)
            return
        try:
            state = torch.load(self.path, map_location=self.args.device, weights_only=True)
            if state.get("data", self.data) != self.data:
                raise Unfit(f"{self.args.run} holds a run with other data: choose another --run; --init begins with an exported model")
            self.recipe.model.load_state_dict(state["model"])
            for o, s in zip(self.optimizers, state["optimizers"]):
                o.load_state_dict({"state": s.get("state", s), "param_groups": o.state_dict()["param_groups"]})
        except (RuntimeError, KeyError, EOFError, pickle.UnpicklingError) as error:
            raise Unfit(f"{self.path} is not a checkpoint of this model: choose another --run, or the sizes it began with") from error
        with torch.no_grad():  # a checkpoint of a run without an average starts one
            for mean, saved in zip(self.average.means, state.get("average") or self.average.parameters):
                mean.copy_(saved)
        counters = json.loads(state.get("counters", "null")) or state
        self.counters = {k: counters.get(k, v) for k, v in self.counters.items()}
        print(f"resumed at {self.counters['tokens'] / 1e6:.1f} M tokens", flush=True)

    def save(self):
        """Tensors and texts alone: PyTorch 1 reads no other number without running code of the file. The rates follow
        from the arguments."""
        self.known_losses()  # weights that a broken loss led to do not replace good ones
        state = {"model": self.recipe.model.state_dict(), "data": self.data, "counters": json.dumps(self.counters),
                 "optimizers": [o.state_dict()["state"] for o in self.optimizers], "average": self.average.means}
        torch.save(state, self.path.with_suffix(".tmp"))
        self.path.with_suffix(".tmp").replace(self.path)
        self.last_save = time.time()

    def progress(self) -> float:
        """The part of the run that is over: of its time, if it has one, else of its tokens."""
        if self.args.minutes:
            c = self.counters
            return (c["seconds"] - c["startup"]) / max(1e-6, 60 * self.args.minutes - c["startup"] - c["closing"])
        return self.counters["tokens"] / self.args.tokens

    def done(self) -> bool:
        self.look_at_clock()
        lost = self.args.patience is not None and self.counters["stale"] >= self.args.patience
        return lost or self.progress() >= 1 or time.time() - self.start > self.args.stop_after

    def look_at_clock(self):
        c, passed = self.counters, time.time() - BEGUN
        c["seconds"] = self.start_seconds + passed
        if c["step"] <= self.first_step:
            c["startup"] = self.start_startup + passed

    def step(self, batch):
        c = self.counters
        self.look_at_clock()
        factor = rate(self.progress(), self.args.warmup, self.args.decay)
        for o, rates in zip(self.optimizers, self.base_rates):
            for g, lr in zip(o.param_groups, rates):
                g["lr"] = lr * factor
        if self.args.cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.recipe.loss(batch)
        loss.backward()
        self.losses.append(loss.detach().clone())
        for o in self.optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        self.average.update(c["step"])
        c["tokens"] += self.recipe.count(batch)
        c["step"], c["batch"] = c["step"] + 1, c["batch"] + 1
        self.look_at_clock()
        self.show()
        # A run by the clock has to know by its middle how long its figure takes, or it would end late.
        unknown = self.args.minutes and not c["closing"] and self.progress() > 0.5
        if c["step"] % 50 == 0 or unknown or time.time() - self.last_record >= RECORD_SECONDS:
            self.log(factor, unknown or c["step"] % self.args.validate_every == 0)
        if time.time() - self.last_save > 300:
            self.save()

    def known_losses(self) -> list[float]:
        """Of the steps since the last record. Only here the host waits for a GPU: at every step it would lose its lead."""
        losses = torch.stack(self.losses).tolist() if self.losses else []
        for i, loss in enumerate(losses):
            if not math.isfinite(loss):
                raise Unfit(f"the loss of step {self.counters['step'] - len(losses) + 1 + i} is {loss}: go on from the last checkpoint "
                            f"with lower rates (--muon-lr {self.args.muon_lr / 2:g} --adam-lr {self.args.adam_lr / 2:g}), or look for "
                            "broken data")
        return losses

    def log(self, factor: float, validates: bool):
        losses = self.known_losses()
        c, seconds = self.counters, time.time() - self.start
        record = {"step": c["step"], "tokens": c["tokens"], "loss": round(sum(losses) / len(losses), 4),
                  "seconds": round(seconds), "rate": round(factor, 4),
                  "tokens_per_second": round((c["tokens"] - self.start_tokens) / seconds)}
        self.losses, self.last_record = [], time.time()
        if validates:
            figure = self.validate()
            record[self.recipe.report] = round(figure, 4)
            self.keep_best(figure)
        self.bar.set_postfix_str(f"loss {record['loss']:.3f}, {record['tokens_per_second']:,} tokens/s", refresh=False)
        self.bar.write(json.dumps(record))
        self.keep(record)
        if self.recipe.report in record:
            self.draw_curve()

    def keep(self, record: dict):
        """In the files of the log."""
        print(json.dumps(record), file=self.log_file, flush=True)
        if self.board:
            for name in record.keys() - {"step"}:
                self.board.add_scalar(name, record[name], record["step"])
            self.board.flush()

    def draw_curve(self):
        draw_curves([self.args.run / "log.jsonl"], self.recipe.report, self.args.run / "curve.png")

    def validate(self) -> float:
        # Without dropout there is no difference, and a compiled model would be compiled again.
        self.recipe.model.train(not self.args.dropout)
        began = time.time()
        # Without gradients, too, a compiled model would be compiled again.
        with self.average.in_place(), torch.set_grad_enabled(self.args.compile):
            figure = self.recipe.validate()
        self.recipe.model.train()
        self.counters["closing"] = 2 * (time.time() - began)
        return figure

    def keep_best(self, figure: float):
        """Figures are losses or error rates: less is better. A figure that is no number is none."""
        c = self.counters
        if not figure < (math.inf if c["best"] is None else c["best"]):
            c["stale"] += 1
            return
        c["best"], c["stale"] = figure, 0
        with self.average.in_place():
            torch.save(self.recipe.model.state_dict(), self.best_path.with_suffix(".tmp"))
        self.best_path.with_suffix(".tmp").replace(self.best_path)

    def take_best(self):
        """From here on the model is that of the best figure."""
        self.recipe.model.load_state_dict(torch.load(self.best_path, map_location=self.args.device, weights_only=True))
        self.average = Average(self.recipe.model, 0.0)

    def finish(self):
        """Saves, reports and exports the averaged weights."""
        self.save()
        self.bar.close()
        c, figure = self.counters, self.validate()
        self.keep_best(figure)
        wants_best = (self.args.best or self.args.patience is not None) and c["best"] is not None
        if wants_best and not figure <= c["best"]:
            print(f"{self.recipe.report} {figure:.4f} is the last figure, and {c['best']:.4f} the best: its weights are used")
            self.take_best()
            figure = c["best"]
        record = {"step": c["step"], "tokens": c["tokens"], self.recipe.report: round(figure, 4)}
        self.keep(record)
        self.draw_curve()
        print(f"{self.recipe.report} {figure:.4f} after {c['tokens'] / 1e6:.1f} M tokens")
        if self.args.out:
            with self.average.in_place():
                self.export()
            print(f"the model is in {self.args.out}")

    def export(self):
        recipe = self.recipe
        if hasattr(recipe, "export"):
            recipe.export(self.args.out)
        else:
            export_model(self.args.out, recipe.model, recipe.config, recipe.vocabulary)

    def epoch(self):
        c = self.counters
        rng = np.random.default_rng([self.args.seed, c["epoch"]])
        batches = self.recipe.batches(rng)
        if not batches:
            raise Unfit(f"the data is too little: it does not fill one batch of {self.args.batch_tokens} tokens (--batch-tokens)")
        for batch in batches[c["batch"] :]:
            self.step(batch)
            if self.done() or stop.signal:
                return
        c["epoch"], c["batch"] = c["epoch"] + 1, 0


def check_arguments(args):
    check_seed_and_threads(args)
    for name in ("tokens", "minutes", "batch_tokens", "validate_every", "decay", "patience"):
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:
            raise Unfit(f"--{name.replace('_', '-')} {value:g} is not a number above 0")
    for name in ("ema", "warmup", "dropout"):
        if not 0 <= getattr(args, name) < 1:
            raise Unfit(f"--{name} {getattr(args, name):g} is not from 0 to 1")


def check_seed_and_threads(args):
    """Of PyTorch and numpy. With many more threads than cores a step takes minutes."""
    check_range(args, "seed", 0, 2**63 - 1)
    if args.threads is not None:
        check_range(args, "threads", 1, MOST_THREADS)


def check_device(name: str):
    try:
        torch.empty(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # PyTorch has no kind of its own for it
        raise Unfit(f"--device {name}: {str(error).splitlines()[0]}") from error


def summary_writer():
    """PyTorch's writer of TensorBoard's files; its package is optional."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Unfit(f"--tensorboard needs the Python package tensorboard ({error}): pip install tensorboard") from error
    return SummaryWriter


def check_out(folder: pathlib.Path):
    """Whether the files of a model can be written there, before hours are spent on them. Asking for rights is not enough: a
    file system may be read-only, and root may do anything."""
    known = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        for path in folder.iterdir():
            if path.name in FILES:
                path.open("r+b").close()
        if not known:  # a run that is refused for something else leaves no folder without a model
            folder.rmdir()
    except OSError as error:
        raise Unfit(f"--out {folder} cannot be written: {error.strerror}") from error


def train(make_recipe, args):
    check_arguments(args)
    check_device(args.device)
    if args.tensorboard:
        summary_writer()
    if args.out:
        check_out(args.out)
    set_threads(args)
    if torch.device(args.device).type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32
    torch.manual_seed(args.seed)
    recipe = make_recipe(args)
    state = Run(recipe, args)
    with stop:
        while not (state.done() or stop.signal):
            state.epoch()
    if stop.signal:
        state.save()
        state.bar.close()
        raise Stopped(f"stopped at step {state.counters['step']}; the same command goes on from {state.path}", stop.signal)
    state.finish()


def run(make_recipe, args):
    """Trains for args.tokens tokens, from the checkpoint if there is one, and exports. An impossible run ends with one
    line and status 1."""
    name = pathlib.Path(sys.argv[0]).name
    try:
        train(make_recipe, args)
    except (Unfit, OSError) as error:
        sys.exit(f"{name}: {error}")
    except Stopped as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(128 + error.signal)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
