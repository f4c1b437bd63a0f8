"""What the comparison and a contender say to each other: a task a line in, one answer a line out, both JSON.

A contender is a script that runs in a process of its own, and may have a Python of its own. Its arguments are a
precision, a device, cpu or cuda, and a job, training or search.
"""

import json
import os
import sys
import time


def serve(prepare, version):
    """Answer tasks from standard input until it ends.

    Args:
        prepare: function of a task (see `TASKS`) that returns a function without arguments, which runs the task once
            and waits for its result, and the number of the model's weights. Raises `NotImplementedError` for a task
            that the contender cannot run.
        version: what runs, with its version, for the table.
    """
    # Libraries that print must not be read as answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    runs = {}
    for line in sys.stdin:
        try:
            if line not in runs:
                began = time.perf_counter()
                runs[line] = prepare(json.loads(line))
                runs[line][0]()
                first = time.perf_counter() - began
                # The second run may compile again, or fill caches.
                runs[line][0]()
                answer = {"version": version, "parameters": runs[line][1], "first": first}
            else:
                began = time.perf_counter()
                runs[line][0]()
                answer = {"seconds": time.perf_counter() - began}
        except NotImplementedError as error:
            answer = {"missing": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


def optional(name):
    """Import a toolkit, or answer every task with the word that it is missing, and end."""
    try:
        return __import__(name)
    except ImportError as error:
        _refuse(f"{name} is not installed ({error})")


def refuse_cpu(device, used):
    """Answer every task with the word that a library does not use the GPU that was asked for, and end, if so.

    Args:
        device: "cpu" or "cuda".
        used: the device that the library uses, in its own words.
    """
    if device == "cuda" and "cpu" in used.lower():
        _refuse("it runs on the CPU alone")


def _refuse(why):
    def prepare(task):
        raise NotImplementedError(why)

    serve(prepare, "")
    sys.exit()


def random_batch(task):
    """Source and target ids, `(batch, length)`, and target ids one position later; none of them is a special token."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (task["batch"], task["length"] + 1)
    source, target = (rng.integers(4, task["vocabulary"], shape).astype("int64") for _ in range(2))
    return source[:, :-1], target[:, :-1], target[:, 1:]
