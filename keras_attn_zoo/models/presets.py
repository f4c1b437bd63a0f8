"""How models are loaded from presets."""

import keras

from keras_attn_zoo.models.downloads import downloading


class PresetLoading:
    """Mixin before a KerasHub class: a preset is loaded in today's dtype policy, whatever it was saved in.

    KerasHub has the same rule, but fails on a preset that was saved in a mixed policy.
    """

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """Load a preset; see the base class. `dtype` is by default the dtype policy that Keras is set to."""
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = keras.config.dtype_policy()
        with downloading(str(preset)):
            return super().from_preset(preset, load_weights, **kwargs)
