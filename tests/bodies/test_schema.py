"""The arguments of bodies: declared once, and found wherever they are needed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keras_attn_zoo
from keras_attn_zoo.bodies.schema import BODIES, with_arguments
from keras_attn_zoo.support.errors import UserError

pytestmark = pytest.mark.one_backend

ROOT = Path(keras_attn_zoo.__file__).parents[1]
BODY = pytest.mark.parametrize("body", BODIES.values(), ids=lambda body: body.name)


def run(code, *arguments, path=ROOT):
    """What a new process prints, with the package of a folder."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=path, capture_output=True, text=True, check=True).stdout


def test_the_schema_needs_no_keras():
    code = (
        "import sys, keras_attn_zoo.bodies.schema\nprint({'keras', 'keras_hub', 'numpy', 'torch'} & set(sys.modules))"
    )
    assert run(code) == "set()\n"


@BODY
def test_what_is_said_of_a_latent_alignment_reaches_its_layer(body):
    given = {"marginalization": "top_k", "top_k": 3, "top_k_gradient": "selected"}
    backbone = body.body_class(9, 9, **body.small, output="latent", **given)
    for one in (backbone, body.body_class.from_config(backbone.get_config())):
        assert one.latent_head.get_config().items() >= given.items()


NEW = '    emphasis: float = field(Rate, 0.25, "emphasis of every second word")\n'
SHOW = """
import contextlib, inspect, io, json, os, runpy, sys

# KerasHub would import it, which takes seconds.
if os.environ.get("KERAS_BACKEND") != "tensorflow":
    sys.modules["tensorflow"] = None
from keras_attn_zoo import cli
from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.runs.system import System, parse_settings
from keras_attn_zoo.support.errors import UserError

def refusal(function, *arguments, **settings):
    try:
        function(*arguments, **settings)
    except UserError as error:
        return str(error)

with contextlib.redirect_stdout(io.StringIO()) as help, contextlib.suppress(SystemExit):
    cli.main(["train", "--help"])
document = "<!-- settings: RNN -->\\n<!-- end -->"
sizes = {"embedding_dim": 2, "hidden_dim": 2}
body = RNNBackbone(5, 5, **sizes, emphasis=0.5)
print(json.dumps({
    "signature": str(inspect.signature(RNNBackbone.__init__)),
    "attribute": body.emphasis,
    "config": RNNBackbone.from_config(body.get_config()).get_config(),
    "refused": refusal(RNNBackbone, 5, 5, emphasis=1.5),
    "set": System("a", {}).override(**parse_settings(["emphasis=0.75"])).backbone,
    "not set": refusal(parse_settings, ["emphasis=1.5"]),
    "docstring": RNNBackbone.__doc__,
    "help": " ".join(help.getvalue().split()),
    "page": runpy.run_path(sys.argv[1])["with_tables"](document),
}))
"""


@pytest.mark.long
def test_a_new_argument_is_one_line(tmp_path):
    copy = shutil.copytree(ROOT / "keras_attn_zoo", tmp_path / "keras_attn_zoo")
    schema = copy / "bodies" / "schema.py"
    text = schema.read_text(encoding="utf-8")
    before = "    input_feeding: bool = field("
    assert text.count(before) == 1
    schema.write_text(text.replace(before, NEW + before), encoding="utf-8")
    found = json.loads(run(SHOW, str(ROOT / "docs" / "write_settings.py"), path=tmp_path).splitlines()[-1])
    assert "attention_query: str = 'previous_state', emphasis: float = 0.25, input_feeding:" in found["signature"]
    assert found["attribute"] == found["config"]["emphasis"] == 0.5
    assert found["refused"] == "emphasis must be at least 0 and below 1; received 1.5."
    assert found["set"] == {"emphasis": 0.75}
    assert found["not set"] == "the setting emphasis must be a number of at least 0 and below 1; received 1.5."
    assert "\n        emphasis: emphasis of every second word.\n" in found["docstring"]
    assert "emphasis=0.25 emphasis of every second word: a number of at least 0 and below 1" in found["help"]
    assert "\n| `emphasis` | emphasis of every second word | `0.25` | a number of at least 0" in found["page"]


@BODY
def test_the_docstring_explains_every_argument_and_no_other(body):
    listed = re.search(r"^    Args:\n((?: {8}.*\n)+)", body.body_class.__doc__, re.MULTILINE)[1]
    explained = [name for names in re.findall(r"^ {8}([\w, ]+):", listed, re.MULTILINE) for name in names.split(", ")]
    assert len(explained) == len(set(explained))
    # Those that every model of Keras has.
    assert {*explained} - {"dtype"} == set(body.arguments.names())


def test_a_docstring_without_arguments_stays():
    for text in (None, "", "A body.\n\nRaises:\n    UserError: never.\n"):
        assert with_arguments(text, BODIES["rnn"].arguments) == text


@BODY
def test_a_switch_is_true_or_false(body):
    """A word would be taken for true, whatever it says."""
    switch = {"rnn": "bidirectional", "transformer": "output_bias"}[body.name]
    with pytest.raises(UserError, match=f"^{switch} must be True or False; received 'false'"):
        body.arguments(9, 9, **{switch: "false"})


@BODY
def test_numbers_of_python_have_no_upper_bound(body):
    arguments = body.arguments(10**9, 10**9, encoder_layers=10**4, top_k=10**6)
    assert (arguments.encoder_layers, arguments.top_k) == (10**4, 10**6)


def test_the_estimate_of_memory_by_hand():
    rnn = BODIES["rnn"].arguments(7, 11, embedding_dim=3, hidden_dim=5, decoder_layers=2)
    # Cells: 12 · 5 · (2 + 2); encoder outputs 6 · 10; attention 3 · 13; embeddings 4 · 3; logits 3 · 11.
    assert rnn.kept_numbers(13) == 240 + 60 + 39 + 12 + 33
    small = {"width": 4, "num_heads": 2, "ffn_dim": 6, "encoder_layers": 1, "decoder_layers": 2}
    transformer = BODIES["transformer"].arguments(7, 11, **small, output="latent")
    # Encoder 14 · 4 + 2 · 6 + 3 · 2 · 13; each decoder 22 · 4 + 2 · 6 + 2 · 78; lexicon 9 · 11 + 3 · 13.
    assert transformer.kept_numbers(13) == 146 + 2 * 256 + 138
