"""Kill every command in every phase, run it again, and compare with one that nobody touched.

    python -m tests.hostile.command_kills --kills 100

Each command runs in a process forked from one that has imported everything, under PyTorch. It is ended by a signal when
it is about to make a change to its files, whichever is drawn of all that it makes, or at a moment drawn from all of its
time. What it leaves must be whole; when it is run again, it must succeed, make the same files, and leave no other.
"""

import argparse
import collections
import functools
import http.server
import io
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

SIZES = ("embedding_dim=8", "hidden_dim=8", "max_tokens=12", "vocabulary_size=None", "model_type=word")
STEPS = ("sentences_per_batch=32", "bucket_count=1", "epochs=1", "validations_per_epoch=1", "beams=1")
PRESET = "tiny_de_en"
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
ENDS = {".html": b"</html>", ".svg": b"</svg>", ".png": b"IEND\xaeB`\x82", ".pdf": b"%%EOF"}
SECONDS = 120


def command_lines():
    """What is killed: a name, and a program with its arguments, each of which can be run again."""
    from tests.hostile.good_lines import COMMANDS, CORPUS

    for path, lines in COMMANDS.items():
        name = " ".join(path)
        if path[0] in ("translate", "evaluate", "align", "explore", "export", "plot"):
            line = next((one for one in lines if "--output" in one or "--name" in one), lines[0])
            yield name, "attn-zoo", line
    pictures = [part if part != "p.png" else "p.pdf" for part in COMMANDS["plot", "attention"][0]]
    yield "plot attention", "attn-zoo", pictures
    small = ["--set", *SIZES, *STEPS]
    yield "train", "attn-zoo", ["train", "--system", "bahdanau", *CORPUS, "--run", "new", "--resume", *small]
    yield "compare", "attn-zoo", ["compare", "--systems", "bahdanau", "uniform", *CORPUS, "--out", "new", *small]
    yield "demo", "attn-zoo", ["demo", "--out", "new"]
    yield "presets", "attn-zoo", ["presets", "--download", PRESET]
    yield "recipe", "bahar2020", ["--out", "new", "--scale", "smoke"]


class Changes:
    """Counts the changes that this process makes below a folder, and ends it before one of them."""

    def __init__(self, root):
        self.root, self.count, self.last, self.signal = str(root), None, None, None
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if self.count is None:
            return
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        else:
            path, writes = arguments[0] if arguments else None, event in CHANGES
        if not writes or isinstance(path, int):
            return
        if os.path.abspath(os.fsdecode(path)).startswith(self.root):
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), self.signal)


class Killer:
    """Runs commands in forked processes, in the working folder of a sandbox."""

    def __init__(self, root):
        from tests.hostile.sandbox import Sandbox

        self.sandbox = Sandbox(root)
        self.root, self.work = self.sandbox.root, self.sandbox.work
        self.changes = Changes(self.work)
        self._serve()

    def _serve(self):
        """A preset to be downloaded, from a server of this process."""
        from keras_attn_zoo.checksums import sha256
        from keras_attn_zoo.models import preset_registry

        folder = self.root / "pristine" / "run" / "best"
        handler = functools.partial(_Quiet, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        about = {p.relative_to(folder).as_posix(): {"size": p.stat().st_size, "sha256": sha256(p)} for p in files}
        facts = {**preset_registry.published()["transformer_tatoeba_de_en"], "files": about}
        preset_registry.published = lambda: {PRESET: facts}
        preset_registry.ADDRESS = f"http://127.0.0.1:{self.server.server_port}/{{file}}"

    def run(self, program, arguments, last=None, name=signal.SIGKILL, seconds=None):
        """Run a command; return status, seconds, number of changes, and what it said."""
        report, writer = os.pipe()
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            self._child(program, arguments, last, name, report, writer)
        os.close(writer)
        if seconds is not None:
            # It may end before, and then no signal is sent.
            while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() - began > seconds:
                    os.kill(child, name)
                    break
                time.sleep(0.001)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with os.fdopen(report) as lines:
            count = int(lines.read() or 0)
        said = (self.root / "said").read_text("utf-8", "replace")
        return status, time.monotonic() - began, count, said

    def _child(self, program, arguments, last, name, report, writer):
        from keras_attn_zoo import unfinished

        os.close(report)
        status = 70
        try:
            with (self.root / "said").open("wb") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            os.chdir(self.work)
            os.environ["HOME"] = str(self.work / "home")
            os.environ.pop("XDG_CACHE_HOME", None)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.alarm(SECONDS)
            # A new process knows nothing of what this one has looked for.
            unfinished.remove_left_of.cache_clear()
            self.changes.count, self.changes.last, self.changes.signal = 0, last, name
            status = _call(program, arguments)
            os.write(writer, str(self.changes.count).encode())
        except SystemExit as stop:
            status = stop.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status or 0)

    def files(self):
        """Content of every file of the working folder, apart from locks."""
        found = {}
        for path in self.work.rglob("*"):
            if path.is_file() and not path.name.endswith(".lock"):
                found[path.relative_to(self.work).as_posix()] = path.read_bytes()
        return found


def _content(name, content):
    """What a file says: of weights, their bits, whatever the order in which they were written."""
    import h5py

    if not name.endswith(".h5"):
        return content
    found = {}
    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(lambda name, one: found.update({name: one[()].tobytes()}) if hasattr(one, "shape") else None)
    return found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def _call(program, arguments):
    """Run a command in this process, small."""
    from keras_attn_zoo import cli
    from keras_attn_zoo.commands import demo
    from keras_attn_zoo.commands.recipe import run_recipe
    from tests.hostile.sandbox import recipe

    if program != "attn-zoo":
        own = recipe(program).RECIPE
        return run_recipe(own, "A recipe.", ["--systems", next(iter(own.entries)), *arguments])
    demo.CORPUS = {"train": 48, "valid": 8, "test": 6, "max_words": 6, "words_per_kind": 1}
    demo.SETTINGS = {**dict(one.split("=") for one in (*SIZES, *STEPS)), "vocabulary_size": None, "warmup_steps": 1}
    for key in ("embedding_dim", "hidden_dim", "max_tokens", *(one.partition("=")[0] for one in STEPS)):
        demo.SETTINGS[key] = int(demo.SETTINGS[key])
    demo.translate = lambda path, precision: None
    return cli.main(list(arguments))


def is_whole(name, content):
    """Whether a file is complete, by a look at its format."""
    import h5py
    import numpy as np

    suffix = Path(name).suffix
    try:
        if suffix == ".json":
            json.loads(content)
        elif suffix == ".jsonl":
            # A last line that a kill has cut is left out in reading.
            [json.loads(line) for line in content.decode().split("\n")[:-1]]
        elif suffix == ".npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                [arrays[one] for one in arrays.files]
        elif suffix == ".npy":
            np.load(io.BytesIO(content), allow_pickle=False)
        elif suffix == ".h5":
            h5py.File(io.BytesIO(content)).close()
        elif suffix in ENDS:
            return content.rstrip().endswith(ENDS[suffix])
        elif suffix in (".md", ".txt", ".csv", ".align"):
            return content.endswith(b"\n")
    except Exception:
        return False
    return True


def one_kill(killer, program, arguments, reference, rng):
    """Kill a command and run it again; return signal, phase and what is wrong, or None where it had ended by then."""
    expected, same, count, seconds = reference
    from keras_attn_zoo.unfinished import is_partial

    name = rng.choices((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), (6, 2, 2))[0]
    at = {"last": rng.randrange(1, count + 1)} if count and rng.random() < 0.6 else {"seconds": rng.uniform(0, seconds)}
    killer.sandbox.tree.restore()
    before = killer.files()
    status, _, _, said = killer.run(program, arguments, name=name, **at)
    if status == 0 and "seconds" in at:
        return None
    reasons = []
    # Before there is a handler, and after the work, a signal ends it at once.
    if status not in (-name, 128 + name, 0) or (name == signal.SIGKILL and status != -name):
        reasons.append(f"status {status} after {name.name}: {said[-200:]}")
    if "Traceback" in said and status != -name:
        reasons.append(f"traceback: {said[-300:]}")
    left = killer.files()
    asides = [path for path in left if any(is_partial(part) for part in Path(path).parts)]
    if asides and status == 128 + name:
        reasons.append(f"left half written: {asides[:3]}")
    for path, content in left.items():
        known = content in (before.get(path), expected.get(path))
        if path not in asides and "/home/" not in f"/{path}" and not known and not is_whole(path, content):
            reasons.append(f"not whole: {path}")
    phase = f"{'with' if asides else 'without'} a file half written" if "last" in at else "at any moment"
    again, _, _, said = killer.run(program, arguments)
    if again != 0:
        reasons.append(f"status {again} of the second run: {said[-300:]}")
    after = killer.files()
    reasons += [f"missing after the second run: {path}" for path in sorted(expected.keys() - after.keys())[:3]]
    reasons += [f"left behind: {path}" for path in sorted(after.keys() - expected.keys())[:3]]
    reasons += [
        f"differs: {path}"
        for path in sorted(same & after.keys())
        if _content(path, after[path]) != _content(path, expected[path])
    ][:3]
    return name.name, phase, reasons


def reference_of(killer, name, program, arguments):
    """What a command makes that nobody touches: its files, those that are the same every time, changes, seconds."""
    runs = []
    for _ in range(2):
        killer.sandbox.tree.restore()
        status, seconds, count, said = killer.run(program, arguments)
        if status != 0:
            raise RuntimeError(f"{name} fails by itself with status {status}: {said[-2000:]}")
        runs.append(killer.files())
    same = {path for path in runs[0] if runs[0][path] == runs[1].get(path)}
    if runs[0].keys() != runs[1].keys():
        raise RuntimeError(f"{name} does not make the same files twice: {sorted(runs[0].keys() ^ runs[1].keys())}")
    return runs[0], same, count, seconds


def main(arguments=None):
    """Run what the command line says; the status is 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.command_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40, help="number of kills (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="which kills are drawn (default: 1)")
    options = parser.parse_args(arguments)
    os.environ |= {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    import torch

    import tests.conftest  # noqa: F401 the same settings as for the other tests

    # A forked process has no threads but one.
    torch.set_num_threads(1)
    began, found = time.monotonic(), collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kills-") as root:
        os.environ["MPLCONFIGDIR"] = f"{root}/matplotlib"
        killer = Killer(Path(root) / "sandbox")
        lines, references = list(command_lines()), {}
        number = 0
        while sum(map(len, found.values())) < options.kills:
            rng = random.Random(f"command kills:{options.seed}:{number}")
            place = number % len(lines)
            name, program, line = lines[place]
            if place not in references:
                references[place] = reference_of(killer, name, program, line)
            if one := one_kill(killer, program, line, references[place], rng):
                found[name].append(one)
                print(f"{name}: {one[0]} {one[1]}: {'; '.join(one[2]) or 'whole'}", flush=True)
            number += 1
        os.chdir("/")
    print("\n| command | kills | by SIGKILL | with a file half written | failed |\n|---|--:|--:|--:|--:|")
    for name, ends in [*found.items(), ("all", [one for several in found.values() for one in several])]:
        killed, half = (sum(one[place] == what for one in ends) for place, what in KINDS)
        print(f"| {name} | {len(ends)} | {killed} | {half} | {sum(bool(one[2]) for one in ends)} |")
    print(f"\n{time.monotonic() - began:.0f} s in all")
    return int(any(one[2] for ends in found.values() for one in ends))


KINDS = ((0, "SIGKILL"), (1, "with a file half written"))


if __name__ == "__main__":
    sys.exit(main())
