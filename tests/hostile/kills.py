"""Kill trainings at random moments, resume them, and compare with one that nobody touched.

    python -m tests.hostile.kills --kills 12

A small training runs as a command of its own and is ended by a signal: at a moment drawn from all of its time, or while
a checkpoint is written. It is resumed, sometimes killed again, and ends; weights, state, log, scores and translations
must then be those of a training that ran through, to the last bit. Every other one continues a run, by LoRA.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from tests.tiny_run import make_text

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("jax", "tensorflow", "torch")
SETTINGS = (
    *("vocabulary_size=None", "model_type=word", "max_tokens=12", "sentences_per_batch=16", "bucket_count=1"),
    *("embedding_dim=8", "hidden_dim=12", "dropout=0.2", "teacher_forcing=0.9", "learning_rate=0.01", "seed=3"),
    *("epochs=2", "validations_per_epoch=2", "plateau_patience=0", "beams=2"),
    *("average=2", "keep_best=1", "ema_momentum=0.9"),
)
# Wall times are of the run, and not of the numbers.
TIMES = ("seconds", "compilation_seconds", "tokens_per_second")
LIMIT = 600


@dataclasses.dataclass
class Kill:
    """One kill: when it came, what was going on, and what is wrong with the run that was resumed."""

    backend: str
    signal: str
    moment: str
    reasons: list


def command(backend, folder, run, of=None):
    """The command line of a training, which continues another run or begins with drawn weights."""
    text = [f"--{part}={folder}/text/{part}.tsv" for part in ("train", "valid", "test")]
    train = [sys.executable, "-m", "keras_attn_zoo.cli", "train", "--backend", backend, *text, "--run", str(run)]
    begins = ["--system", "bahdanau", "--small"] if of is None else ["--from", str(of), "--lora", "2"]
    return [*train, *begins, "--resume", "--set", *SETTINGS]


class Training:
    """A training in a process of its own; what it says is kept."""

    def __init__(self, backend, folder, run, of=None):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
        self.run, self.said = Path(run), []
        self._table = tempfile.TemporaryFile()  # noqa: SIM115 as long as the training
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command(backend, folder, run, of),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._table,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def wait(self):
        """Wait for the end; return the status."""
        status = self.process.wait(LIMIT)
        self._reader.join(10)
        return status

    def partial(self):
        """Name of what is being written aside in the run folder, or None."""
        try:
            return next((e.name for e in os.scandir(self.run) if e.name.endswith(".partial")), None)
        except OSError:
            return None

    def printed(self):
        """Whether the table, which comes last, has been printed: nothing is left to do but to exit."""
        return os.fstat(self._table.fileno()).st_size > 0

    def moment(self):
        """What is going on, as far as one sees from outside."""
        if self.printed():
            return "exit"
        if partial := self.partial():
            return f"checkpoint ({partial.split('.')[1]})"
        said = "".join(self.said)
        if "round" in said:
            state = self.run / "scores.json"
            rounds = said.count("valid loss")
            return "scoring and drawing" if state.exists() or f"round {rounds}/{rounds} " in said else "steps"
        if (self.run / "config.json").exists():
            return "compilation"
        return "data preparation" if said else "start and imports"


def kill(training, rng, seconds):
    """Send a signal at a moment; return its name and what was going on, or None where it had ended by then."""
    sent = rng.choices((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), (8, 1, 1))[0]
    if rng.random() < 0.3:
        # While a checkpoint is written: which one is drawn too.
        left, seen = rng.randrange(1, 12), None
        while training.process.poll() is None and left:
            partial = training.partial()
            if partial and partial != seen:
                left, seen = left - 1, partial
            time.sleep(0.0005)
        time.sleep(rng.choice((0, 0, 0.001, 0.005)))
    else:
        until = training.began + rng.uniform(0, seconds)
        while training.process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
    if training.process.poll() is not None:
        return None
    moment = training.moment()
    training.process.send_signal(sent)
    return sent.name, moment


def one_kill(backend, folder, of, seconds, reference, number):
    """Train, kill, resume, compare."""
    rng = random.Random(f"kills:{backend}:{number}")
    kills, reasons, runs = [], [], 0
    wanted = 2 if rng.random() < 0.25 else 1
    while True:
        run = folder / f"{backend}-{number}-{runs}"
        training = Training(backend, folder, run, of)
        found = kill(training, rng, seconds) if len(kills) < wanted else None
        status = training.wait()
        if found:
            kills.append(found)
            reasons += what_is_wrong(status, "".join(training.said), *found, ended=training.printed())
        elif kills:
            break
        else:
            # One that ended before its moment is no trial.
            runs += 1
    if status != 0:
        reasons.append(f"status {status} of the resumed run: {''.join(training.said)[-300:]}")
    if not reasons:
        reasons += differences(reference, contents(run))
        reasons += [f"left behind: {path.name}" for path in run.rglob("*.partial")]
    return [Kill(backend, *kills[0], reasons)] + [Kill(backend, *more, []) for more in kills[1:]]


def what_is_wrong(status, said, name, moment, ended=False):
    """A signal that can be answered is answered by a message and a status; before and after the work, it kills."""
    code = signal.Signals[name].value
    if name == "SIGKILL" or moment == "start and imports" or ended:
        return [] if status in (-code, 128 + code, 1) else [f"status {status} after {name}"]
    reasons = [] if status == 128 + code else [f"status {status} after {name} during {moment}"]
    return reasons + ([f"traceback after {name}: {said[-200:]}"] if "Traceback" in said else [])


def contents(run):
    """All numbers of a run folder, times apart."""
    import h5py

    found = {}
    for path in sorted(run.rglob("model.weights.h5")):
        preset = path.parent.relative_to(run).as_posix()
        with h5py.File(path) as file:
            file.visititems(
                lambda name, one: found.update({f"{preset} {name}": _bits(one)}) if hasattr(one, "shape") else None  # noqa: B023
            )
    with np.load(run / "state.npz", allow_pickle=False) as arrays:
        found |= {f"state {name}": _bits(arrays[name]) for name in arrays.files}
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    found["log"] = [_without_times(json.loads(line)) for line in lines]
    found["scores"] = _without_times(json.loads((run / "scores.json").read_text(encoding="utf-8")))
    found["hypotheses"] = (run / "hypotheses" / "test.txt").read_bytes()
    return found


def _bits(array):
    array = np.asarray(array)
    return array.dtype.str, array.shape, array.tobytes()


def _without_times(value):
    if not isinstance(value, dict):
        return value
    return {k: _without_times(v) for k, v in value.items() if not k.endswith("seconds") and k not in TIMES}


def differences(left, right):
    """Names of what two runs differ in."""
    return [f"differs: {name}" for name in left.keys() | right.keys() if left.get(name) != right.get(name)]


def run_kills(counts, jobs, folder):
    """Kill as many trainings a backend as `counts` says; return the kills."""
    folder = Path(folder)
    make_text(folder / "text")
    references, found = {}, []
    for backend, kind in ((backend, kind) for backend in counts for kind in ("begun", "continued")):
        of = None if kind == "begun" else folder / f"{backend}-begun-reference"
        # Once for the caches of compiled programs, once for the clock.
        for name in ("first", "reference"):
            training = Training(backend, folder, folder / f"{backend}-{kind}-{name}", of)
            if training.wait():
                raise RuntimeError(
                    f"the training that is to be killed fails by itself: {''.join(training.said)[-2000:]}"
                )
            seconds = time.monotonic() - training.began
        first, again = (contents(folder / f"{backend}-{kind}-{name}") for name in ("first", "reference"))
        if wrong := differences(first, again):
            raise RuntimeError(f"two {kind} runs that nobody touched differ under {backend}: {wrong[:5]}")
        references.setdefault(backend, []).append((of, seconds, again))
        print(f"{backend}, {kind}: {seconds:.0f} s uninterrupted", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = [
            pool.submit(one_kill, backend, folder, *references[backend][number % 2], number)
            for number in range(max(counts.values()))
            for backend in counts
            if number < counts[backend]
        ]
        for task in concurrent.futures.as_completed(tasks):
            for one in task.result():
                found.append(one)
                print(f"{one.backend} {one.signal} {one.moment}: {'; '.join(one.reasons) or 'same bits'}", flush=True)
    return found


def table(found):
    """A Markdown table: a row a moment, a column a backend."""
    moments = collections.Counter((one.moment.split(" (")[0], one.backend) for one in found)
    backends = [name for name in BACKENDS if any(one.backend == name for one in found)]
    lines = [f"| killed during | {' | '.join(backends)} | not the same bits |", "|---|" + "--:|" * (len(backends) + 1)]
    for moment in sorted({moment for moment, _ in moments}):
        bad = sum(bool(one.reasons) for one in found if one.moment.split(" (")[0] == moment)
        lines.append(f"| {moment} | {' | '.join(str(moments[moment, name]) for name in backends)} | {bad} |")
    return "\n".join(lines)


def main():
    """Run what the command line says; the status is 1 where a run was not the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=12, help="number of trainings killed (default: 12)")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time (default: 1)")
    options = parser.parse_args()
    # A shell has what runs in the background ignore it, and so would the trainings.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    count = len(options.backends)
    counts = {name: (options.kills + count - 1 - i) // count for i, name in enumerate(options.backends)}
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        found = run_kills(counts, options.jobs, folder)
    print(f"\n{table(found)}\n")
    signals = collections.Counter(one.signal for one in found)
    failed = sum(bool(one.reasons) for one in found)
    print(f"{dict(signals)}; {failed} failed; {time.monotonic() - began:.0f} s in all")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
