"""Callbacks of training: further figures of the validation text, and the best preset so far.

A *round* is what Keras calls an epoch: the stretch of training between two
validations, of which an epoch of the corpus may have several.
"""

import contextlib
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attn_zoo.devices import leads
from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
from keras_attn_zoo.support.files import PathLike, atomic_path
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.averaged_weights import averaged_weights
from keras_attn_zoo.training.checkpoints import ends_early, sign_of


class ValidationBLEU(keras.callbacks.Callback):
    """Translate validation sentences after every round; log "val_bleu".

    Put it before the callbacks that watch "val_bleu".

    Args:
        sources: sentences to translate, or what `Translator.encode` made of them.
        references: their translations.
        batch_size: sentences per batch.
        **scoring: see `score_text`: `tokenize`, `lowercase` and `more_references`.
    """

    def __init__(self, sources: Any, references: Sequence[str], batch_size: int = 32, **scoring: Any) -> None:
        super().__init__()
        self.scoring = scoring
        self.sources, self.references, self.batch_size = sources, references, batch_size

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Encode the sentences, once for all rounds."""
        self._text = self.model.encode(self.sources)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Add the score to the logs, for the callbacks after this one."""
        logs["val_bleu"] = self.score()

    def score(self) -> float:
        """Translate the sentences, and return their BLEU."""
        from keras_attn_zoo.evaluation.text_scores import score_text

        found = self.model.translate(self._text, batch_size=self.batch_size)
        scores = score_text([best[0].text for best in found], self.references, ("bleu",), **self.scoring)
        return scores["bleu"].score


class BLEUAtSteps(ValidationBLEU):
    """Translate sentences after given steps; log the score with the round of the step.

    Put it before the log, whose clock then does not see it. A round that is resumed is repeated, and so is this.

    Args:
        keys: by the number of a step, the names of its score in the log.
        batches: the `TranslationBatches` that are trained on.
        sources, references, batch_size, **scoring: see `ValidationBLEU`.
        max_tokens: maximum tokens of these sentences and their translations; None for those of training.
        last: names of the score at the end of a training that is stopped after an unknown number of steps.
    """

    def __init__(
        self,
        keys: Mapping[int, Sequence[str]],
        batches: Any,
        sources: Any,
        references: Sequence[str],
        batch_size: int = 32,
        max_tokens: int | None = None,
        last: Sequence[str] = (),
        **scoring: Any,
    ) -> None:
        super().__init__(sources, references, batch_size, **scoring)
        self.keys, self.batches, self.max_tokens, self.last = keys, batches, max_tokens, last

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Count the steps that were taken before."""
        with self._room():
            super().on_train_begin(logs)
        self._step = self.batches.round * len(self.batches)
        self._found: dict[str, float] = {}

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Translate after the step before this one, if that is one of those given and of the same round."""
        if batch > 0:
            self._translate()
        self._step += 1

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Translate after the last step, and add the scores of the round to the logs."""
        self._translate(self.last if self.model.stop_training else ())
        logs.update(self._found)
        self._found = {}

    def _translate(self, last=()):
        if keys := [*self.keys.get(self._step, ()), *last]:
            with self._room(), averaged_weights(self.model):
                self._found |= dict.fromkeys(keys, self.score())

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """Lengths for these sentences; the rest of the training, and what is saved of it, keep their own."""
        preprocessor = self.model.preprocessor
        before = preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length
        if self.max_tokens is not None:
            self.model.set_max_tokens(self.max_tokens)
        try:
            yield
        finally:
            preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length = before


class FreeRunningLoss(keras.callbacks.Callback):
    """Score the validation text after every round with the decoder's own predictions as its input.

    The log gets "val_free_running_loss", the mean negative log-likelihood of a token. Put it before the callbacks that
    watch it.

    Args:
        text: what `Translator.encode` made of the sentences and their translations.
        batch_size: sentences per batch.
    """

    def __init__(self, text: Any, batch_size: int = 32) -> None:
        super().__init__()
        self.text, self.batch_size = text, batch_size

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Add the loss to the logs, for the callbacks after this one."""
        scored = self.model.score(self.text, free_running=True, batch_size=self.batch_size)
        logs["val_free_running_loss"] = corpus_likelihood(scored)["loss"]


class BestPreset(keras.callbacks.Callback):
    """Save the model as a preset whenever a monitored figure improves.

    A preset also contains tokenizers and configuration, so it can translate
    on its own, under any backend. It is written to a temporary folder, then renamed.

    Args:
        folder: where to write the preset.
        monitor: "val_bleu", of which more is better, or a loss.
        batches: the `TranslationBatches` that are trained on, for `earlier`.
        earlier: folder to which the best preset so far is copied before that of a round takes its place which ends
            early, since a budget is spent: a longer training goes on without that round.
    """

    def __init__(
        self, folder: PathLike, monitor: str = "val_loss", batches: Any = None, earlier: PathLike | None = None
    ) -> None:
        super().__init__()
        self.folder, self.monitor = Path(folder), monitor
        self.batches, self.earlier = batches, earlier
        self.sign = sign_of(monitor)
        self.best: float | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Forget the best value, as Keras' own callbacks do."""
        self.best = None

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Save, if this round is the best so far."""
        value = float(logs[self.monitor])
        if not math.isfinite(value):
            return
        if self.best is None or self.sign * value < self.sign * self.best:
            if leads():
                if self.earlier and self.best is not None and ends_early(self.model, self.batches, epoch):
                    with atomic_path(self.earlier) as aside:
                        shutil.copytree(self.folder, aside)
                with atomic_path(self.folder) as aside:
                    self.model.save_to_preset(str(aside))
            self.best = value
