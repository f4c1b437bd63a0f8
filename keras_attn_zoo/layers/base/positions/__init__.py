"""What the energies of dot products may know of positions, by name: a file for each, the equation first."""

from keras_attn_zoo.layers.base.positions.alibi import ALiBi
from keras_attn_zoo.layers.base.positions.relative_positions import RelativePositions
from keras_attn_zoo.layers.base.positions.rotary import Rotary
from keras_attn_zoo.layers.base.positions.shaw import Shaw
from keras_attn_zoo.layers.base.positions.t5 import T5

POSITIONS: dict[str, type[RelativePositions]] = {"rotary": Rotary, "alibi": ALiBi, "shaw": Shaw, "t5": T5}
