"""The operations of layers, bodies, training and search, each in the form that is fastest on this machine.

`portable` has every operation in plain `keras.ops`; `forms` says where another form takes its place. With the
environment variable `ATTN_ZOO_KERNELS=portable`, none does.
"""

from keras_attn_zoo.kernels.known_weights import PreparedWeight, inference, is_inference, is_repeating
from keras_attn_zoo.kernels.peak_memory import peak_bytes
from keras_attn_zoo.kernels.portable.embeddings import rows
from keras_attn_zoo.kernels.portable.expanded_pairs import pair_recurrence, with_pair
from keras_attn_zoo.kernels.portable.fused_attention import fused_contexts
from keras_attn_zoo.kernels.portable.label_losses import along_last, is_largest, of_labels, smoothed, token_losses
from keras_attn_zoo.kernels.portable.linear_maps import (
    int8_linear,
    linear,
    master_weight,
    operand_dtype,
    preparation,
    weighted_sum,
)
from keras_attn_zoo.kernels.portable.loops import (
    at_most,
    chunks,
    each,
    first,
    fold,
    known_index,
    recurrent_layer,
    scan,
    usually,
    write,
)
from keras_attn_zoo.kernels.portable.masks import (
    EXCLUDED,
    attending_rows,
    combine_masks,
    equal_weights,
    masked_softmax,
    padding_masks,
    without_padding,
)
from keras_attn_zoo.kernels.portable.mixtures import SMALLEST_TOTAL, guarded_log_normalizer, log_normalizer
from keras_attn_zoo.kernels.portable.noise import dropout
from keras_attn_zoo.kernels.portable.search_steps import chunk_sizes, parallel_batches, top_k
from keras_attn_zoo.kernels.portable.sparse_normalizers import entmax15, sparsemax
from keras_attn_zoo.kernels.portable.updates import AdamStep, adam, is_replica
from keras_attn_zoo.kernels.processor import is_faster_in_bfloat16, processor_name
from keras_attn_zoo.kernels.written_gradients import recomputed
