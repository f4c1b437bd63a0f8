"""The benchmarks run, at sizes at which there is nothing to measure."""

import json
import re
import runpy
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.runs.memory import on_cpu

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
PRESET = str(BENCHMARKS.parent / "presets" / "uniform_tatoeba_de_en")
SMALL = "--set width=16 num_heads=2 ffn_dim=8 encoder_layers=1 decoder_layers=1"
ARGUMENTS = {
    "layers": "--layers bahdanau luong_dot/entmax15 average --lengths 3 --batch 2 --width 8 --heads 2 --seconds 0",
    "devices": "--devices 1 --widths 16 --layers 1 --vocabulary 20 --batch 2 --length 3 --steps 1",
    "train": f"--systems transformer ran-all --batch 2 --length 3 --vocabulary 20 --steps 1 --rounds 1 {SMALL}",
    "latent": "--vocabulary 20 --source 7 --batch 2 --width 64 --seconds 0",
    "gpu": f"--systems transformer ran-all --batch 2 --largest 4 --length 3 --vocabulary 20 --steps 1 {SMALL}",
    "translate": f"--systems transformer --batch 2 --beams 1 2 --length 3 --vocabulary 20 --repeats 1 {SMALL}",
}
BY_DAY = {("layers", "bfloat16"), ("train", "float32")}


def test_all_benchmarks_are_here():
    others = {"live_page", "measure", "memory", "products", "start"}
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*ARGUMENTS, *others}


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(name, precision, marks=() if (name, precision) in BY_DAY else pytest.mark.slow)
        for name in ARGUMENTS
        for precision in ("float32", "bfloat16")
    ],
)
@pytest.mark.long
def test_a_benchmark_prints_its_table(name, precision, monkeypatch, capsys):
    """What it measures is computed in the precision that its table names, whatever else stands in float32."""
    computed = []
    build = keras.layers.Layer.__init__

    def watched(layer, *args, **kwargs):
        build(layer, *args, **kwargs)
        computed.append(layer.compute_dtype)

    monkeypatch.setattr(keras.layers.Layer, "__init__", watched)
    monkeypatch.setattr(sys, "argv", [name, *ARGUMENTS[name].split(), "--precision", precision])
    monkeypatch.syspath_prepend(BENCHMARKS)
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "|--" in output and precision in output
    assert ("bfloat16" in computed) == (precision == "bfloat16")


@pytest.mark.long
@pytest.mark.one_backend
def test_the_figures_of_systems_are_kept_for_the_page_of_speed(monkeypatch, capsys, tmp_path):
    """In the precision that was measured, relative to the first system, with what they depend on."""
    records = tmp_path / "systems.jsonl"
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("train", "translate"):
        arguments = [*ARGUMENTS[name].replace("transformer ", "transformer ran-all ", name == "translate").split()]
        monkeypatch.setattr(sys, "argv", [name, *arguments, "--precision", "float32", "--output", str(records)])
        runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    found = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(one["system"], one["job"], one.get("beams")) for one in found] == [
        *((name, "training", None) for name in ("transformer", "ran-all")),
        *((name, "search", beams) for beams in (1, 2) for name in ("transformer", "ran-all")),
    ]
    assert {one["ratio"] for one in found[::2]} == {1}
    # In training, the first system takes turns with each of the others.
    for first, other in zip(found[2::2], found[3::2], strict=True):
        assert other["ratio"] == pytest.approx(other["seconds"] / first["seconds"])
    assert {(one["precision"], one["batch"], one["vocabulary"]) for one in found} == {("float32", 2, 20)}
    assert {tuple(one["settings"]) for one in found} == {tuple(SMALL.split()[1:])}
    for one in found:
        one["beams"] = {2: 4}.get(one.get("beams"), one.get("beams"))
    speed = runpy.run_path(str(BENCHMARKS.parent / "docs" / "write_speed.py"))
    *_, row = speed["table_of_mechanisms"](found).splitlines()
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    ratios = [f"{one['ratio']:.2f}" for one in found[1::2]]
    assert cells == ["`ran-all`", ratios[0], "", *ratios[1:]]


@pytest.mark.long
def test_memory_is_measured_over_calls_of_all_methods(monkeypatch, capsys):
    argv = ["memory", "--calls", "10", "--every", "5", "--words", "3", "--preset", PRESET]
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(BENCHMARKS / "memory.py"), run_name="__main__")
    *_, row = capsys.readouterr().out.strip().splitlines()
    calls, mib, _ = row.strip("| ").split(" | ")
    assert int(calls) == 10 and float(mib) > 100


@pytest.mark.long
def test_the_first_translation_is_timed_in_a_process_of_its_own(monkeypatch, capsys):
    backend = keras.config.backend()
    argv = ["start", "--backends", backend, "--repeats", "1", "--max-tokens", "6", *SMALL.split()]
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(BENCHMARKS / "start.py"), run_name="__main__")
    # The header, a rule and one row: the first run, and the one after it.
    *_, row = capsys.readouterr().out.strip().splitlines()
    name, *seconds, precision = (cell.strip() for cell in row.strip("|").split("|"))
    assert name == backend and len(seconds) == 4 and min(map(float, seconds)) > 0
    # What it chose, not "auto".
    assert precision in ("float32", "bfloat16")


@pytest.mark.skipif(keras.config.backend() != "torch", reason="it counts PyTorch's operations")
def test_the_products_of_a_step_are_counted(monkeypatch, capsys):
    """A decoder layer has 6·d² in its attentions and 2·d·f in its network, RAN-ALL 4·d²; both multiply by V·d.

    The last product is so large that another library may compute it.
    """
    vocabulary = 1 << 17
    argv = ["products", "--systems", "transformer", "ran-all", "--length", "3", "--vocabulary", str(vocabulary)]
    argv += SMALL.split()
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(BENCHMARKS / "products.py"), run_name="__main__")
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    counts = [int(row[2].split()[0].replace(",", "")) for row in rows]
    d, network, output = 16, 2 * 16 * 8, vocabulary * 16
    assert counts == [each * d**2 + network + output for each in (6, 4)]


@pytest.mark.one_backend
def test_batches_double_until_memory_is_full(monkeypatch):
    """Any other error is one; the share is that of the best batch, by 6 for each weight and token."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    gpu = runpy.run_path(str(BENCHMARKS / "gpu.py"))
    options = gpu["argparse"].Namespace(batch=4, largest=None, length=10, peak=None)

    def measured(system, beams, options):
        if options.batch == 16:
            raise RuntimeError(system)
        return options.batch / {4: 10, 8: 20}[options.batch], options.batch << 20, 1e9

    monkeypatch.setitem(gpu["until_full"].__globals__, "measured", measured)
    monkeypatch.setitem(gpu["row"].__globals__, "device", lambda: "NVIDIA H100 80GB HBM3")
    found = gpu["until_full"]("a", "CUDA out of memory.", 0, options)
    assert found == {4: (0.4, 4 << 20, 1e9), 8: (0.4, 8 << 20, 1e9)}
    with pytest.raises(RuntimeError, match="no such layer"):
        gpu["until_full"]("a", "no such layer", 0, options)
    # 200 tokens a second, of 6e9 each, of 989e12; and half the time at the largest batch of both.
    assert gpu["row"]("bfloat16", found, {4: (0.8, None, 1)}, 0, options) == ["0.50", "0.1%", "8 MiB", "bfloat16"]
    assert gpu["row"]("bfloat16", found, found, 4, options) == ["1.00", "", "8 MiB", "bfloat16"]
    assert gpu["row"]("float32", {}, found, 0, options) == ["", "", "", "float32"]
    known = ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "NVIDIA L40S", "Tesla T4", ""]
    assert [gpu["peak_of"](name, "bfloat16") for name in known] == [756e12, 312e12, 121e12, None, None, None]


@pytest.mark.skipif(keras.config.backend() != "torch", reason="it counts PyTorch's operations")
@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_a_position_is_multiplied_by_so_many_weights(tie, monkeypatch):
    """Biases and norms, which are counted too, are few."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    gpu, products = (runpy.run_path(str(BENCHMARKS / f"{name}.py")) for name in ("gpu", "products"))
    length, sizes = 7, {"width": 64, "num_heads": 2, "ffn_dim": 256, "encoder_layers": 1, "decoder_layers": 1}
    body = TransformerBackbone(500, 500, **sizes, tie_embeddings=tie)
    ids = np.full((1, length), 4)
    counter = products["Counter"]([weight.value for weight in body.weights])
    with counter:
        body.logits(body({"encoder_token_ids": ids, "decoder_token_ids": ids, "encoder_padding_mask": ids > 0}))
    assert counter.with_weights / length == pytest.approx(gpu["multiplied"](body), rel=0.03)


@pytest.mark.one_backend
def test_a_peer_that_is_not_installed_does_not_translate(monkeypatch, capsys, tmp_path):
    """It is left out with a word; a peer that fails otherwise is an error."""
    text = runpy.run_path(str(BENCHMARKS / "peers" / "translate_text.py"))
    monkeypatch.setitem(text["convert"].__globals__, "FOLDER", tmp_path)
    peers = {"one": ("One", "one", ()), "other": ("Other", "pytest", ())}
    monkeypatch.setitem(text["convert"].__globals__, "PEERS", peers)
    (tmp_path / "preset_weights.py").touch()
    (tmp_path / "one_model.py").write_text("import a_toolkit_that_is_absent")
    (tmp_path / "other_model.py").touch()
    options = text["argparse"].Namespace(preset="a", peer=sys.executable)
    assert text["convert"](options, tmp_path, {}) == {"other": f"Other {pytest.__version__}"}
    assert "One: left out, No module named 'a_toolkit_that_is_absent'" in capsys.readouterr().err

    (tmp_path / "other_model.py").write_text("raise ValueError('no such layer')")
    with pytest.raises(RuntimeError, match="no such layer"):
        text["convert"](options, tmp_path, {})


@pytest.mark.one_backend
def test_the_comparison_with_peers(monkeypatch, capsys, tmp_path):
    """What is not installed is left out with a word; the fastest peer in float32 is the measure of the others."""
    compare = runpy.run_path(str(BENCHMARKS / "peers" / "compare.py"))
    monkeypatch.setitem(compare["CONTENDERS"], "absent", ("absent.py", "float32", None))
    (tmp_path / "absent.py").write_text(
        "from protocol import optional\noptional('a_toolkit_that_is_absent')\nraise SystemExit(1)"
    )
    monkeypatch.setitem(compare["run"].__globals__, "FOLDER", tmp_path)
    (tmp_path / "protocol.py").write_text((BENCHMARKS / "peers" / "protocol.py").read_text())
    options = compare["argparse"].Namespace(threads=1, device="cpu", python={}, runs=1)
    assert "a_toolkit_that_is_absent is not installed" in compare["run"]("absent", "train-small", options)["missing"]

    common = {"task": "train-small", "round": 0, "parameters": 3e6, "first": 2.0, "machine": "a machine", "threads": 2}
    times = {"ours-jax": [0.96, 0.48, 0.48], "torch": [1.2, 0.96, 0.96], "torch-bfloat16": [0.24] * 3}
    records = tmp_path / "records.jsonl"
    with records.open("w") as file:
        for name, seconds in times.items():
            file.write(json.dumps({**common, "name": name, "version": name, "seconds": seconds}) + "\n")
    monkeypatch.setattr(sys, "argv", ["compare", "--read", str(records)])
    compare["main"]()
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- peers: train-small -->\n\nold\n\n<!-- end -->\n\nAfter.\n")
    monkeypatch.setattr(sys, "argv", ["compare", "--read", str(records), "--page", str(page)])
    compare["main"]()
    output = capsys.readouterr().out
    block = output.partition("## train-small\n\n")[2].strip()
    assert output.startswith("a machine, 2 threads.\n") and block
    assert page.read_text() == f"Before.\n\n<!-- peers: train-small -->\n\n{block}\n\n<!-- end -->\n\nAfter.\n"
    lines = [line for line in block.splitlines() if "|" in line]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    # 32 sentences of 30 tokens a run.
    assert rows[2:] == [
        ["torch-bfloat16", "bfloat16", "4000", "4000 – 4000", "4.00", "2", "3.0 M"],
        ["ours-jax", "float32", "2000", "1000 – 2000", "2.00", "2", "3.0 M"],
        ["torch", "float32", "1000", "800 – 1000", "1.00", "2", "3.0 M"],
    ]


@pytest.mark.slow
def test_installed_contenders_run(monkeypatch, capsys, tmp_path):
    """Without a GPU, none is measured as if there were one; a file takes results of one machine."""
    compare = runpy.run_path(str(BENCHMARKS / "peers" / "compare.py"))
    records = tmp_path / "records.jsonl"

    def left_out(*options):
        monkeypatch.setattr(sys, "argv", ["compare", *options, "--rounds", "1", "--runs", "1", "--threads", "1"])
        compare["main"]()
        printed = capsys.readouterr()
        return printed.out, re.findall("^(.*): left out, (.*)$", printed.err, re.MULTILINE)

    of_task = {"smoke-train": ["ours-torch", "keras-hub-torch", "torch"], "smoke-search": ["ours-torch", "ctranslate2"]}
    for task, names in of_task.items():
        table, missing = left_out("--tasks", task, "--contenders", *names, "--output", str(records))
        assert not missing and "dropout 0.1, attention_dropout 0.1, activation_dropout 0.1" in table
    found = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(one["task"], one["name"]) for one in found] == [(task, name) for task in of_task for name in of_task[task]]
    assert all(len(one["seconds"]) == 1 and one["seconds"][0] > 0 for one in found)
    # The same Transformer for all: peers have no norm or bias that ours lacks.
    sizes = {one["parameters"] for one in found if one["task"] == "smoke-train"}
    assert max(sizes) <= 1.05 * min(sizes)

    names = of_task["smoke-train"]
    if on_cpu():
        options = compare["argparse"].Namespace(threads=1, device="cuda", python={}, runs=1)
        assert compare["run"](names[0], "smoke-train", options) == {"missing": "it runs on the CPU alone"}
    monkeypatch.setitem(compare["main"].__globals__, "machine", lambda device: f"a {device}")
    with pytest.raises(SystemExit):
        left_out("--device", "cuda", "--tasks", "smoke-train", "--contenders", *names, "--output", str(records))
    assert "not of a cuda" in capsys.readouterr().err


@pytest.mark.one_backend
@pytest.mark.parametrize("processor", ["amx", "avx2", "avx512"])
def test_the_page_of_peers_is_what_the_command_writes_of_its_records(processor):
    """No figure in a block is typed, and none of another task or machine."""
    compare = runpy.run_path(str(BENCHMARKS / "peers" / "compare.py"))
    page = (BENCHMARKS / "records" / f"peers-{processor}.md").read_text("utf-8")
    records = compare["read"](BENCHMARKS / "records" / f"peers-{processor}.jsonl")
    assert {record["machine"] for record in records} == {records[0]["machine"]}
    blocks = re.findall(r"<!-- peers: ([\w-]+) -->", page)
    assert sorted(blocks) == sorted({"machine", *(record["task"] for record in records)}) and len(blocks) > 5
    filled = compare["fill"].__globals__["filled"]
    assert filled(page, compare["blocks"](records)) == page
    records[0]["seconds"] = [second / 2 for second in records[0]["seconds"]]
    assert filled(page, compare["blocks"](records)) != page


@pytest.mark.one_backend
def test_the_table_of_files_of_text_is_what_the_command_writes_of_its_records(monkeypatch, tmp_path):
    text = runpy.run_path(str(BENCHMARKS / "peers" / "translate_text.py"))
    page, copy = (BENCHMARKS / "records" / "text.md").read_text("utf-8"), tmp_path / "page.md"
    path = BENCHMARKS / "records" / "text-avx512.jsonl"

    def written(records):
        copy.write_text(page, "utf-8")
        monkeypatch.setattr(sys, "argv", ["translate_text", "--read", str(records), "--page", str(copy)])
        text["main"]()
        return copy.read_text("utf-8")

    assert written(path) == page
    other = tmp_path / "other.jsonl"
    other.write_text(path.read_text("utf-8").replace('"words": 11393', '"words": 22786'))
    assert written(other) != page


@pytest.mark.one_backend
def test_the_table_of_files_of_text():
    """The median of the runs after the first, with their spread, and the share of translations as the first peer's."""
    text = runpy.run_path(str(BENCHMARKS / "peers" / "translate_text.py"))
    common = {"machine": "a machine", "threads": 2, "lines": 1000, "words": 6000, "reference": "a peer"}
    runs = {"ours": ([9.0, 3.0, 2.0, 6.0], 990), "a peer": ([1.5, 1.5], 1000)}
    records = [
        {**common, "beams": 4, "name": name, "seconds": seconds, "same": same} for name, (seconds, same) in runs.items()
    ]
    where, _, table = text["block"](records).partition("\n\n")
    assert where == "a machine, 2 threads, 1,000 lines, 6,000 words."
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert header[-1] == "as a peer"
    assert rows == [
        ["4", "ours", "2000", "3.0", "2.0 – 6.0", "9.0", "99.0%"],
        ["4", "a peer", "4000", "1.5", "1.5 – 1.5", "1.5", "100.0%"],
    ]
    with pytest.raises(SystemExit, match="of more than one machine: give one file for each"):
        text["block"]([*records, {**records[0], "machine": "another"}])


@pytest.mark.one_backend
def test_a_page_without_blocks_and_a_file_without_records_are_refused(tmp_path):
    records = runpy.run_path(str(BENCHMARKS / "peers" / "records.py"))
    page = tmp_path / "page.md"
    page.write_text("No block.\n")
    with pytest.raises(SystemExit, match=r"page\.md has no block for text\."):
        records["fill"](page, {"text": "a table"})
    assert page.read_text() == "No block.\n"
    with pytest.raises(SystemExit, match=r"empty\.jsonl is empty\."):
        (tmp_path / "empty.jsonl").touch()
        records["read"](tmp_path / "empty.jsonl")
