"""The call of a translator or a body as a SavedModel, without its search."""

from typing import Any

import keras

from keras_attn_zoo.bodies.model_inputs import translation_inputs
from keras_attn_zoo.kernels import inference
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike


class CallExport:
    """Mixin before a Keras model with the inputs of a body: `export` leaves lengths open, whatever the body."""

    def export(
        self,
        filepath: PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Export the call, for given translations; see `keras.Model.export`. `export_to_saved_model` has the search.

        Args:
            filepath, format, verbose: see `keras.Model.export`.
            input_signature: a list of one dict of the inputs; by default the four that a preprocessor makes, of any
                number and length of sentences.
            **kwargs: see `keras.Model.export`.

        Raises:
            UserError: a SavedModel under PyTorch, where Keras exports no model whose inputs have names.
        """
        backend = keras.config.backend() if format == "tf_saved_model" else None
        if backend == "torch":
            raise UserError(
                "under PyTorch, Keras writes no SavedModel of a model whose inputs have names: save a preset, and "
                "export it under JAX."
            )
        if input_signature is None:
            inputs = translation_inputs()
            # A Transformer takes no other, and none is needed to score.
            del inputs["teacher_forcing_mask"]
            specs = {name: keras.InputSpec(shape=x.shape, dtype=x.dtype, name=name) for name, x in inputs.items()}
            input_signature = [specs]
            if backend == "jax":
                # It would take all lengths for different ones, those of ids and their mask too.
                shapes = [{name: f"(batch, {name.partition('_')[0]})" for name in specs}]
                kwargs["jax2tf_kwargs"] = {"polymorphic_shapes": shapes, **(kwargs.get("jax2tf_kwargs") or {})}
        if backend != "tensorflow":
            super().export(filepath, format, verbose, input_signature, **kwargs)  # type: ignore[misc]
            return
        archive = keras.export.ExportArchive()
        # Of a tracked model, TensorFlow traces the body again, with an input that not every body takes.
        archive.add_variable_collection("variables", self.variables)  # type: ignore[attr-defined]
        archive.add_endpoint("serve", inference()(self.__call__), input_signature, **kwargs)  # type: ignore[operator]
        archive.write_out(filepath, verbose=verbose)
