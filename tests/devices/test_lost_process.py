"""Two processes of JAX, of which one is lost: the other ends with one line, and the run resumes."""

import subprocess
import sys
import time

import keras
import pytest

from keras_attn_zoo import cli
from tests.devices.runs import LOST, check_log, rounds, train_arguments, two_of_jax

if keras.config.backend() != "jax":
    pytest.skip("of JAX", allow_module_level=True)


def lose(how, number, arguments):
    """Lose a process of two; return what they exit with, and what they write to standard error."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LOST, how, f"KERAS_DISTRIBUTION_PROCESS_ID={number}", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in two_of_jax()
    ]
    try:
        started[number].wait(200)
        # JAX itself would notice after 100 seconds, and then wait for the lost process.
        ended = time.monotonic()
        started[1 - number].wait(20)
        assert time.monotonic() - ended < 20
        return [process.returncode for process in started], [process.communicate()[1] for process in started]
    finally:
        for process in started:
            process.kill()


@pytest.mark.slow
def test_a_run_whose_process_was_killed_resumes_alone_to_the_numbers_of_one(tmp_path):
    arguments = train_arguments("jax", tmp_path, "run")
    statuses, errors = lose("killed", 1, arguments)
    assert statuses == [2, -9], errors
    said = errors[0].splitlines()[-1]
    assert "error: process 1 of 2 lost another one (UNKNOWN: Gloo" in said and "resume the run" in said
    assert errors[0].count("error:") == 1 and "Traceback" not in errors[0]
    # JAX returns before a step is computed: a process may be ahead of the one that writes.
    assert rounds(tmp_path / "run") in ([1], [1, 2])
    assert cli.main([*arguments, "--resume"]) == 0
    check_log(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("how, number", [("failed", 1), ("failed", 0), ("killed", 0)])
def test_the_other_process_ends_too(tmp_path, how, number):
    """Of the first one JAX notices too, in a thread of C++, whose message ends the process if it comes first."""
    statuses, errors = lose(how, number, train_arguments("jax", tmp_path, "run"))
    assert statuses[number] == (2 if how == "failed" else -9), errors
    if how == "failed":
        assert errors[number].splitlines()[-1].endswith("error: cannot write log.jsonl: No space left on device.")
    assert statuses[1 - number] in ((2,) if number else (2, -6)), errors
    said = [f"process {2 - number} of 2 lost another one", *([] if number else ["another task died"])]
    assert any(text in errors[1 - number] for text in said)
