"""The steps of a search by onnxruntime: what is computed once for sentences, and what follows a hypothesis."""

from typing import Any

import numpy as np
import onnxruntime


class ONNXSteps:
    """The steps of a search of some sentences, whose state stays with onnxruntime.

    Args:
        encoder, step: the `onnxruntime.InferenceSession`s of a translator.
        description: what stands in its `translator.json`.
        token_ids: int32 `(sentences, length)`, padded.
        mask: bool, true on tokens.
        options: `onnxruntime.RunOptions`; once they have `terminate`, a step raises, and the one that runs ends.

    Attributes:
        mask: of the sentences that are still searched.
        beams: hypotheses of each so far.
    """

    def __init__(
        self,
        encoder: Any,
        step: Any,
        description: dict[str, Any],
        token_ids: np.ndarray,
        mask: np.ndarray,
        options: Any = None,
    ) -> None:
        self.mask, self._options = mask, options
        self._step, self._memory, self._state = step, description["memory"], description["state"]
        inputs = {"encoder_token_ids": token_ids, "encoder_padding_mask": mask}
        names = [one.name for one in encoder.get_outputs()]
        self._values = dict(zip(names, self._run(encoder, inputs), strict=True))
        self.beams = 1
        for one in self._memory:
            if one["per"] == "hypothesis":
                self._values[one["name"]] = _tensor(self._values[one["name"]].numpy()[:, None])

    def __call__(self, token_ids: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Advance all hypotheses by one token.

        Args:
            token_ids: the last tokens, `(sentences, beams)`.
            rows: the hypotheses before that they follow, by their number in all sentences, `(sentences, beams)`.

        Returns:
            log-probabilities `(sentences, beams, vocabulary)` and attention `(sentences, beams, heads, source)`.
        """
        beams = token_ids.shape[1]
        if beams != self.beams:
            self._give_memory(lambda x: np.repeat(x[:, :1], beams, axis=1), ("hypothesis",))
            self.beams = beams
        inputs = {"token_ids": token_ids, "parents": rows.astype("int32")}
        log_probs, attention, *state = self._run(self._step, {**inputs, **self._values})
        self._values |= {one["name"]: x for one, x in zip(self._state, state, strict=True)}
        return log_probs.numpy(), attention.numpy()

    def keep(self, sentences: np.ndarray) -> None:
        """Forget all sentences but some; the rows of the next call still count the others."""
        self.mask = self.mask[sentences]
        self._give_memory(lambda x: x[sentences], ("sentence", "hypothesis"))

    def _give_memory(self, change, kinds):
        for one in self._memory:
            if one["per"] in kinds:
                self._values[one["name"]] = _tensor(change(self._values[one["name"]].numpy()))

    def _run(self, session, inputs):
        values = {name: x if isinstance(x, onnxruntime.OrtValue) else _tensor(x) for name, x in inputs.items()}
        return session.run_with_ort_values(None, values, self._options)


def _tensor(array):
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
