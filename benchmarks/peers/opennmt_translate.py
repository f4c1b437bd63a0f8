"""Translate a file with OpenNMT-py's own search: `MODEL INPUT OUTPUT BEAMS`.

MODEL is a folder that `opennmt_model.py` wrote. There is no int8: its translator accepts the option, but computes in
float32.
"""

import os
import sys
from argparse import Namespace
from pathlib import Path

import torch
from onmt.constants import DefaultTokens
from onmt.inference_engine import InferenceEnginePY
from onmt.opts import translate_opts
from onmt.utils.parse import ArgumentParser
from plain_weights import translate_file


def main(model, read, write, beams):
    parser = ArgumentParser()
    translate_opts(parser)
    files = ["-model", str(Path(model) / "model.pt"), "-src", read, "-output", os.devnull]
    # A ratio of 0 sets no limit by the length of the source.
    search = ["-beam_size", beams, "-length_penalty", "none", "-max_length_ratio", "0", "-batch_size", "32"]
    options = parser.parse_args([*files, *search])
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    # The checkpoint holds one, and PyTorch loads only what it is told to trust.
    torch.serialization.add_safe_globals([Namespace])
    engine = InferenceEnginePY(options)

    def translate(sources):
        _, found = engine.infer_list([" ".join([*source, DefaultTokens.EOS]) for source in sources])
        return [best.split() for best, *_ in found]

    translate_file(model, read, write, translate)


if __name__ == "__main__":
    main(*sys.argv[1:])
