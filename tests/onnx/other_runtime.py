"""A runtime written from `translator.json` and docs/how-to/export.md, with nothing of the package."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import onnxruntime
import sentencepiece

STEPS = {
    "single_spaces": lambda text: " ".join(text.split()),
    "strip_byte_order_marks": lambda text: text.lstrip("\ufeff "),
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "replace_nul": lambda text: text.replace("\0", "\ufffd"),
}
SCORE = "log_prob / ((5 + tokens) / 6) ** length_penalty + coverage_penalty * sum(log(min(coverage, 1)))"


def changed(text, steps):
    for name in steps:
        text = STEPS[name](text)
    return text


class Tokenizer:
    """A tokenizer of SentencePiece or of words."""

    def __init__(self, folder, known):
        self.known = known
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / known["model"]))

    def encode(self, text):
        text = changed(text, self.known["before"])
        if self.known["kind"] == "words":
            return [self.model.piece_to_id(f"▁{word}") for word in text.split()]
        assert self.known["kind"] == "sentencepiece"
        return self.model.encode(text)

    def decode(self, ids):
        return changed(self.model.decode(ids), self.known["after"])


def translate(folder, text, **settings):
    """Return the best translation of a sentence and its score, by a search that may have other settings."""
    said = json.loads((Path(folder) / "translator.json").read_text(encoding="utf-8"))
    source, target = (Tokenizer(folder, said["tokenizers"][side]) for side in ("source", "target"))
    encoder, step = (onnxruntime.InferenceSession(Path(folder) / said[part]["file"]) for part in ("encoder", "step"))
    search, end, ids = {**said["search"], **settings}, said["target"]["end"], source.encode(text)
    if not ids:
        return "", 0.0
    if (most := said["truncation"]["source"]) is not None:
        ids = ids[: most - 2] if said["truncation"]["keep"] == "start" else ids[2 - most :]
    ids = np.array([[*ids, said["source"]["end"]]], "int32")
    given = {"encoder_token_ids": ids, "encoder_padding_mask": np.ones(ids.shape, "bool")}
    values = dict(zip([one.name for one in encoder.get_outputs()], encoder.run(None, given), strict=True))
    of_hypotheses = {one["name"]: values[one["name"]] for one in said["memory"] if one["per"] == "hypothesis"}

    def score(one):
        log_prob, tokens, coverage, _ = one
        assert said["score"] == SCORE
        covered = np.log(np.clip(coverage, 1e-9, 1)).sum() if search["coverage_penalty"] else 0
        return log_prob / ((5 + len(tokens)) / 6) ** search["length_penalty"] + search["coverage_penalty"] * covered

    def ended(one):
        return one[1][-1:] == [end]

    kept = [(0.0, [], np.zeros(ids.shape[1]), 0)]
    for position in range(said["lengths"]["target"] - 1):
        values |= {name: np.repeat(x[:, None], len(kept), axis=1) for name, x in of_hypotheses.items()}
        given = {"token_ids": [[one[1][-1] if position else said["target"]["start"] for one in kept]]}
        given["parents"] = [[one[3] for one in kept]]
        log_probs, attention, *state = step.run(None, values | {k: np.array(x, "int32") for k, x in given.items()})
        values |= {one["name"]: x for one, x in zip(said["state"], state, strict=True)}
        candidates = []
        for row, (log_prob, tokens, coverage, _) in enumerate(kept):
            if ended(kept[row]):
                candidates.append((log_prob, tokens, coverage, row))
                continue
            of_row, n = log_probs[0, row], search["no_repeat_ngram"]
            if position < search["min_length"]:
                of_row[end] = -np.inf
            for first in range(position - n + 1 if n else 0):
                if tokens[first : first + n - 1] == tokens[position - n + 1 :]:
                    of_row[tokens[first + n - 1]] = -np.inf
            covered = coverage + attention[0, row].mean(axis=0)
            best = np.argsort(-of_row)[: search["beams"]].tolist()
            candidates += [(log_prob + of_row[i], [*tokens, i], covered, row) for i in best]
        kept = sorted(candidates, key=score, reverse=True)[: search["beams"]]
        if all(map(ended, kept)):
            break
    return target.decode(kept[0][1]), score(kept[0])
