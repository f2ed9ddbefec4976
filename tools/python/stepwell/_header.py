"""The declarations of <stepwell.h>. Written by generate.py from the header: do not edit."""
from ctypes import (POINTER as P, c_char, c_char_p, c_double, c_float, c_int, c_int16, c_int32, c_int64, c_int8, c_size_t, c_uint16, c_uint32, c_uint64, c_uint8, c_void_p)
from enum import IntEnum as _IntEnum

from ._types import Opaque, Struct, callback as C, function as F

VERSION = "0.2.0"
_nan = float("nan")

SW_ALIGN = 64
SW_MAX_RANK = 8
SW_PHASES = 5
SW_ALL_AXES = 0
SW_WITNESS_ACCESS = 1
SW_WITNESS_EXTENT = 2
SW_WITNESS_DEATH = 4
SW_WITNESS_NEED = 8
SW_WITNESS_ALL = 15
SW_VERTEX_KINDS = 13
SW_SHIELD_SIZE = 1
SW_SHIELD_REMOVE = 2
SW_SHIELD_INPUTS = 4
SW_SHIELD_OUTPUTS = 8
SW_SHIELD_KERNEL = 16
SW_SHIELD_ACTIVATION = 32
SW_SHIELD_CROSSOVER = 64
SW_SHIELD_ALL = 127
SW_MUTATION_KINDS = 13
SW_FITNESS_KINDS = 8

# Objects without members, and structs.
class sw_budget(Opaque): pass
class sw_exec(Opaque): pass
class sw_model(Opaque): pass
class sw_optimizer(Opaque): pass
class sw_ctx(Opaque): pass
class sw_profile(Opaque): pass
class sw_dataset(Opaque): pass
class sw_loader(Opaque): pass
class sw_checkpoint(Opaque): pass
class sw_members(Opaque): pass
class sw_feed(Opaque): pass
class sw_space(Opaque): pass
class sw_pbt(Opaque): pass
class sw_es(Opaque): pass
class sw_zo(Opaque): pass
class sw_genome(Opaque): pass
class sw_search_space(Opaque): pass
class sw_net(Opaque): pass
class sw_evolution(Opaque): pass
class sw_par(Struct): pass
class sw_shape(Struct): pass
class sw_type(Struct): pass
class sw_buffer(Struct): pass
class sw_kernel_info(Struct): pass
class sw_launch(Struct): pass
class sw_value(Struct): pass
class sw_param(Struct): pass
class sw_knob(Struct): pass
class sw_array(Struct): pass
class sw_exec_opts(Struct): pass
class sw_device_info(Struct): pass
class sw_conv_opts(Struct): pass
class sw_conv_transpose_opts(Struct): pass
class sw_linear(Struct): pass
class sw_conv2d(Struct): pass
class sw_conv_transpose2d(Struct): pass
class sw_lstm(Struct): pass
class sw_gru(Struct): pass
class sw_embedding(Struct): pass
class sw_binary_linear(Struct): pass
class sw_binary_conv2d(Struct): pass
class sw_layer_norm(Struct): pass
class sw_rms_norm(Struct): pass
class sw_group_norm(Struct): pass
class sw_batch_norm2d(Struct): pass
class sw_param_group(Struct): pass
class sw_optimizer_opts(Struct): pass
class sw_schedule(Struct): pass
class sw_run_args(Struct): pass
class sw_phase_info(Struct): pass
class sw_plan_info(Struct): pass
class sw_plan_storage(Struct): pass
class sw_plan_visitor(Struct): pass
class sw_plan_layer(Struct): pass
class sw_run_info(Struct): pass
class sw_share(Struct): pass
class sw_idx_opts(Struct): pass
class sw_cifar_opts(Struct): pass
class sw_csv_opts(Struct): pass
class sw_text_opts(Struct): pass
class sw_tokens_opts(Struct): pass
class sw_npy_opts(Struct): pass
class sw_samples(Struct): pass
class sw_arrays_opts(Struct): pass
class sw_images_opts(Struct): pass
class sw_dataset_info(Struct): pass
class sw_class_score(Struct): pass
class sw_loader_opts(Struct): pass
class sw_feed_opts(Struct): pass
class sw_member(Struct): pass
class sw_member_view(Struct): pass
class sw_members_opts(Struct): pass
class sw_members_args(Struct): pass
class sw_members_memory(Struct): pass
class sw_utility(Struct): pass
class sw_resize_opts(Struct): pass
class sw_resize_info(Struct): pass
class sw_pack_shape(Struct): pass
class sw_packing(Struct): pass
class sw_checkpoint_opts(Struct): pass
class sw_checkpoint_info(Struct): pass
class sw_checkpoint_found(Struct): pass
class sw_profile_opts(Struct): pass
class sw_witness_info(Struct): pass
class sw_hyper(Struct): pass
class sw_pbt_opts(Struct): pass
class sw_pbt_event(Struct): pass
class sw_pbt_member(Struct): pass
class sw_es_opts(Struct): pass
class sw_es_evaluation(Struct): pass
class sw_es_info(Struct): pass
class sw_zo_opts(Struct): pass
class sw_vertex(Struct): pass
class sw_genome_info(Struct): pass
class sw_task(Struct): pass
class sw_named_loss(Struct): pass
class sw_net_opts(Struct): pass
class sw_price(Struct): pass
class sw_mutation(Struct): pass
class sw_mutation_record(Struct): pass
class sw_neuron_utility(Struct): pass
class sw_mutate_opts(Struct): pass
class sw_crossover_opts(Struct): pass
class sw_selection(Struct): pass
class sw_candidate(Struct): pass
class sw_fitness(Struct): pass
class sw_evolution_opts(Struct): pass
class sw_evolve_progress(Struct): pass
class sw_evolution_memory(Struct): pass
class sw_grad_desc(Struct): pass
class sw_rule(Struct): pass
class sw_reference(Struct): pass
class sw_op_case(Struct): pass
class sw_op_desc(Struct): pass

class sw_status(_IntEnum):
    SW_OK = 0
    SW_INVALID = 1
    SW_NOMEM = 2
    SW_FORMAT = 3
    SW_IO = 4
    SW_UNSUPPORTED = 5
    SW_STALE = 6
    SW_BUSY = 7
    SW_DEVICE = 8
    SW_STOPPED = 9

SW_OK = sw_status.SW_OK
SW_INVALID = sw_status.SW_INVALID
SW_NOMEM = sw_status.SW_NOMEM
SW_FORMAT = sw_status.SW_FORMAT
SW_IO = sw_status.SW_IO
SW_UNSUPPORTED = sw_status.SW_UNSUPPORTED
SW_STALE = sw_status.SW_STALE
SW_BUSY = sw_status.SW_BUSY
SW_DEVICE = sw_status.SW_DEVICE
SW_STOPPED = sw_status.SW_STOPPED

sw_par._fields_ = [
    ("n_threads", c_int),
    ("run", C(None, None, None, P(sw_par), C(None, None, None, c_void_p, c_int), c_void_p, c_int)),
]
class sw_isa(_IntEnum):
    SW_ISA_BASE = 0
    SW_ISA_AVX2 = 1
    SW_ISA_AVX512 = 2

SW_ISA_BASE = sw_isa.SW_ISA_BASE
SW_ISA_AVX2 = sw_isa.SW_ISA_AVX2
SW_ISA_AVX512 = sw_isa.SW_ISA_AVX512

class sw_dtype(_IntEnum):
    SW_F32 = 0
    SW_F64 = 1
    SW_BF16 = 2
    SW_I32 = 3
    SW_U8 = 4
    SW_U16 = 5

SW_F32 = sw_dtype.SW_F32
SW_F64 = sw_dtype.SW_F64
SW_BF16 = sw_dtype.SW_BF16
SW_I32 = sw_dtype.SW_I32
SW_U8 = sw_dtype.SW_U8
SW_U16 = sw_dtype.SW_U16

sw_shape._fields_ = [
    ("rank", c_int32),
    ("dim", c_int64 * 8),
]
class sw_layout(_IntEnum):
    SW_PLAIN = 0
    SW_N16 = 1

SW_PLAIN = sw_layout.SW_PLAIN
SW_N16 = sw_layout.SW_N16

sw_type._fields_ = [
    ("dtype", c_int),
    ("layout", c_int),
    ("shape", sw_shape),
]
sw_buffer._fields_ = [
    ("ptr", c_void_p),
    ("type", sw_type),
    ("stride", c_int64 * 8),
]
sw_kernel_info._fields_ = [
    ("in", P(sw_type)),
    ("out", P(sw_type)),
    ("n_in", c_int),
    ("n_out", c_int),
    ("attrs", c_void_p),
    ("threads", c_int),
    ("isa", c_int),
    ("accumulate", c_uint32),
    ("skipped", c_uint32),
]
sw_launch._fields_ = [
    ("size", c_size_t),
    ("in", P(sw_buffer)),
    ("n_in", c_int),
    ("out", P(sw_buffer)),
    ("n_out", c_int),
    ("scratch", c_void_p),
    ("scratch_bytes", c_size_t),
    ("attrs", c_void_p),
    ("accumulate", c_uint32),
    ("par", P(sw_par)),
    ("isa", c_int),
    ("seed", c_uint64),
    ("stream", c_uint32),
    ("step", c_uint32),
    ("run", c_uint32),
]
sw_kernel = C(9, None, c_int, P(sw_launch))
class sw_mode(_IntEnum):
    SW_TRAIN = 0
    SW_EVAL = 1

SW_TRAIN = sw_mode.SW_TRAIN
SW_EVAL = sw_mode.SW_EVAL

class sw_phase(_IntEnum):
    SW_DATA = 0
    SW_FORWARD = 1
    SW_LOSS = 2
    SW_BACKWARD = 3
    SW_STEP = 4

SW_DATA = sw_phase.SW_DATA
SW_FORWARD = sw_phase.SW_FORWARD
SW_LOSS = sw_phase.SW_LOSS
SW_BACKWARD = sw_phase.SW_BACKWARD
SW_STEP = sw_phase.SW_STEP

sw_value._fields_ = [
    ("id", c_uint32),
    ("generation", c_uint32),
]
sw_param._fields_ = [
    ("model", P(sw_model)),
    ("index", c_uint32),
]
sw_knob._fields_ = [
    ("model", P(sw_model)),
    ("index", c_uint32),
]
sw_array._fields_ = [
    ("dtype", c_int),
    ("shape", sw_shape),
    ("data", c_void_p),
]
class sw_nvtx_level(_IntEnum):
    SW_NVTX_PHASES = 0
    SW_NVTX_LAYERS = 1
    SW_NVTX_OPS = 2
    SW_NVTX_OFF = 3

SW_NVTX_PHASES = sw_nvtx_level.SW_NVTX_PHASES
SW_NVTX_LAYERS = sw_nvtx_level.SW_NVTX_LAYERS
SW_NVTX_OPS = sw_nvtx_level.SW_NVTX_OPS
SW_NVTX_OFF = sw_nvtx_level.SW_NVTX_OFF

sw_exec_opts._fields_ = [
    ("size", c_size_t),
    ("device", c_char_p),
    ("threads", c_int),
    ("budget", P(sw_budget)),
    ("seed", c_uint64),
    ("profile", P(sw_profile)),
    ("checks", c_int),
    ("op_clocks", c_int),
    ("no_inplace", c_int),
    ("max_programs", c_int),
    ("isa", c_char_p),
    ("no_phases", c_int),
    ("shares", c_int),
    ("no_recompute", c_int),
    ("no_rebuild", c_int),
    ("no_chunks", c_int),
    ("no_tiles", c_int),
    ("nvtx", c_int),
    ("tf32", c_int),
    ("sync_ops", c_int),
    ("no_graphs", c_int),
    ("no_strips", c_int),
]
sw_device_info._fields_ = [
    ("size", c_size_t),
    ("name", c_char * 16),
    ("card", c_char * 128),
    ("major", c_int),
    ("minor", c_int),
    ("driver", c_int),
    ("runtime", c_int),
    ("blas", c_int),
    ("dnn", c_int),
    ("total_bytes", c_size_t),
    ("open_bytes", c_size_t),
    ("free_bytes", c_size_t),
    ("model_bytes", c_size_t),
    ("arena_bytes", c_size_t),
    ("data_bytes", c_size_t),
    ("unexplained_bytes", c_int64),
    ("pinned_bytes", c_size_t),
]
sw_conv_opts._fields_ = [
    ("size", c_size_t),
    ("stride", c_int),
    ("pad", c_int),
    ("groups", c_int),
    ("dilation", c_int),
    ("no_bias", c_int),
]
sw_conv_transpose_opts._fields_ = [
    ("size", c_size_t),
    ("stride", c_int),
    ("pad", c_int),
    ("output_pad", c_int),
    ("groups", c_int),
    ("dilation", c_int),
    ("no_bias", c_int),
]
class sw_upsample_mode(_IntEnum):
    SW_NEAREST = 0
    SW_BILINEAR = 1

SW_NEAREST = sw_upsample_mode.SW_NEAREST
SW_BILINEAR = sw_upsample_mode.SW_BILINEAR

class sw_binary_result(_IntEnum):
    SW_BINARY_BITS = 0
    SW_BINARY_SUMS = 1

SW_BINARY_BITS = sw_binary_result.SW_BINARY_BITS
SW_BINARY_SUMS = sw_binary_result.SW_BINARY_SUMS

sw_linear._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("reserved", c_uint64 * 2),
]
sw_conv2d._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("stride", c_int),
    ("pad", c_int),
    ("groups", c_int),
    ("dilation", c_int),
    ("reserved", c_uint64 * 1),
]
sw_conv_transpose2d._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("stride", c_int),
    ("pad", c_int),
    ("output_pad", c_int),
    ("groups", c_int),
    ("dilation", c_int),
    ("reserved", c_uint64 * 2),
]
sw_lstm._fields_ = [
    ("weight_ih", sw_param),
    ("weight_hh", sw_param),
    ("bias_ih", sw_param),
    ("bias_hh", sw_param),
    ("reserved", c_uint64 * 2),
]
sw_gru._fields_ = [
    ("weight_ih", sw_param),
    ("weight_hh", sw_param),
    ("bias_ih", sw_param),
    ("bias_hh", sw_param),
    ("reserved", c_uint64 * 2),
]
sw_embedding._fields_ = [
    ("weight", sw_param),
    ("reserved", c_uint64 * 2),
]
sw_binary_linear._fields_ = [
    ("logits", sw_param),
    ("bias", sw_param),
    ("reserved", c_uint64 * 2),
]
sw_binary_conv2d._fields_ = [
    ("logits", sw_param),
    ("bias", sw_param),
    ("stride", c_int),
    ("pad", c_int),
    ("reserved", c_uint64 * 2),
]
sw_layer_norm._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("epsilon", c_float),
    ("reserved", c_uint64 * 2),
]
sw_rms_norm._fields_ = [
    ("weight", sw_param),
    ("epsilon", c_float),
    ("reserved", c_uint64 * 2),
]
sw_group_norm._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("groups", c_int64),
    ("epsilon", c_float),
    ("reserved", c_uint64 * 2),
]
sw_batch_norm2d._fields_ = [
    ("weight", sw_param),
    ("bias", sw_param),
    ("running_mean", sw_param),
    ("running_var", sw_param),
    ("momentum", c_float),
    ("epsilon", c_float),
    ("reserved", c_uint64 * 2),
]
class sw_update_time(_IntEnum):
    SW_UPDATE_DEFAULT = 0
    SW_UPDATE_AFTER = 1
    SW_UPDATE_RELEASE = 2

SW_UPDATE_DEFAULT = sw_update_time.SW_UPDATE_DEFAULT
SW_UPDATE_AFTER = sw_update_time.SW_UPDATE_AFTER
SW_UPDATE_RELEASE = sw_update_time.SW_UPDATE_RELEASE

sw_param_group._fields_ = [
    ("params", P(sw_param)),
    ("n_params", c_size_t),
    ("lr", c_float),
    ("weight_decay", c_float),
    ("update", c_int),
    ("reserved_word", c_uint32),
    ("reserved", c_uint64 * 1),
]
sw_optimizer_opts._fields_ = [
    ("size", c_size_t),
    ("kind", c_char_p),
    ("params", P(sw_param)),
    ("n_params", c_size_t),
    ("lr", c_float),
    ("weight_decay", c_float),
    ("momentum", c_float),
    ("nesterov", c_int),
    ("beta1", c_float),
    ("beta2", c_float),
    ("epsilon", c_float),
    ("groups", P(sw_param_group)),
    ("n_groups", c_size_t),
    ("keep_gradients", c_int),
    ("release", c_int),
    ("as_given", c_int),
    ("update", c_int),
    ("alpha", c_float),
    ("centered", c_int),
    ("initial_accumulator", c_float),
    ("beta2_decay", c_float),
    ("clip_threshold", c_float),
    ("least_scale", c_float),
    ("fixed_rate", c_int),
    ("max_skipped", c_int),
    ("no_check", c_int),
    ("knobs", c_uint64),
]
sw_schedule._fields_ = [
    ("size", c_size_t),
    ("kind", c_char_p),
    ("base", c_float),
    ("warmup_steps", c_uint64),
    ("total_steps", c_uint64),
    ("every", c_uint64),
    ("gamma", c_float),
    ("floor", c_float),
]
sw_step_fn = C(None, None, None, P(sw_ctx), c_void_p)
sw_run_args._fields_ = [
    ("size", c_size_t),
    ("fn", sw_step_fn),
    ("user", c_void_p),
    ("models", P(P(sw_model))),
    ("n_models", c_int),
    ("inputs", P(sw_array)),
    ("n_inputs", c_int),
    ("mode", c_int),
    ("immediate", c_int),
    ("variant", c_uint64),
    ("step", c_uint64),
    ("run", c_uint32),
    ("data_bytes", c_size_t),
    ("es", P(sw_es)),
    ("es_slice", c_uint64),
]
sw_phase_info._fields_ = [
    ("peak_bytes", c_size_t),
    ("end_bytes", c_size_t),
    ("ns", c_uint64),
]
sw_plan_info._fields_ = [
    ("size", c_size_t),
    ("model_bytes", c_size_t),
    ("arena_bytes", c_size_t),
    ("data_bytes", c_size_t),
    ("total_bytes", c_size_t),
    ("slot_bytes", c_size_t),
    ("lower_bound_bytes", c_size_t),
    ("padding_bytes", c_size_t),
    ("peak_bytes", c_size_t),
    ("immediate_bytes", c_size_t),
    ("phase", sw_phase_info * 5),
    ("n_ops", c_uint32),
    ("n_values", c_uint32),
    ("n_storages", c_uint32),
    ("trace_ns", c_uint64),
    ("plan_ns", c_uint64),
    ("peak_op", c_char * 64),
    ("holders", c_char * 256),
    ("n_repeats", c_uint32),
    ("n_released", c_uint32),
    ("plain_arena_bytes", c_size_t),
    ("operations", c_uint64),
    ("repeat_operations", c_uint64),
    ("cost", c_uint64),
    ("repeat_cost", c_uint64),
    ("least_repeat_cost", c_uint64),
    ("method", c_char * 16),
    ("n_rebuilt", c_uint32),
    ("rebuild_cost", c_uint64),
    ("chunk_rows", c_int64),
    ("n_tiled", c_uint32),
    ("launches", c_uint32),
    ("budget_cost", c_uint64),
    ("program_host_bytes", c_size_t),
]
sw_plan_storage._fields_ = [
    ("size", c_size_t),
    ("id", c_uint32),
    ("alias", c_uint32),
    ("name", c_char_p),
    ("layer", c_char_p),
    ("op", c_char_p),
    ("role", c_char_p),
    ("phase", c_int),
    ("input", c_int),
    ("bytes", c_size_t),
    ("padding", c_size_t),
    ("offset", c_size_t),
    ("birth", c_uint32),
    ("death", c_uint32),
]
sw_plan_visitor._fields_ = [
    ("size", c_size_t),
    ("to", c_void_p),
    ("op", C(None, None, None, c_void_p, c_uint32, c_char_p, c_int)),
    ("storage", C(None, None, None, c_void_p, P(sw_plan_storage))),
]
sw_plan_layer._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("op", c_char_p),
    ("dtype", c_int),
    ("shape", sw_shape),
    ("parameters", c_uint64),
    ("parameter_bytes", c_size_t),
    ("saved_bytes", c_size_t),
    ("operations", c_uint64),
    ("backward_operations", c_uint64),
]
sw_plan_layer_visitor = C(None, None, None, c_void_p, P(sw_plan_layer))
sw_run_info._fields_ = [
    ("size", c_size_t),
    ("phase", sw_phase_info * 5),
    ("peak_bytes", c_size_t),
    ("arena_bytes", c_size_t),
    ("model_bytes", c_size_t),
    ("bump_bytes", c_size_t),
    ("allocations", c_uint64),
    ("ns", c_uint64),
    ("warm", c_int),
    ("replayed", c_int),
]
class sw_share_kind(_IntEnum):
    SW_SHARE_ROLE = 0
    SW_SHARE_LAYER = 1

SW_SHARE_ROLE = sw_share_kind.SW_SHARE_ROLE
SW_SHARE_LAYER = sw_share_kind.SW_SHARE_LAYER

sw_share._fields_ = [
    ("size", c_size_t),
    ("kind", c_int),
    ("name", c_char_p),
    ("at_peak_bytes", c_size_t),
    ("peak_bytes", c_size_t),
]
sw_share_visitor = C(None, None, None, c_void_p, P(sw_share))
sw_idx_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("unpack_bytes", c_size_t),
]
sw_cifar_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("unpack_bytes", c_size_t),
]
sw_csv_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("label", c_char_p),
    ("header", c_int),
    ("separator", c_char),
    ("test_path", c_char_p),
    ("test_share", c_double),
    ("seed", c_uint64),
    ("standardise", c_int),
    ("unpack_bytes", c_size_t),
    ("unlabelled", c_int64),
]
sw_text_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("context", c_int64),
    ("unpack_bytes", c_size_t),
]
sw_tokens_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("bits", c_int),
    ("context", c_int64),
    ("vocabulary", c_char_p),
    ("validation_path", c_char_p),
    ("unpack_bytes", c_size_t),
]
sw_npy_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("test_path", c_char_p),
    ("test_share", c_double),
    ("seed", c_uint64),
    ("unpack_bytes", c_size_t),
    ("unlabelled", c_int64),
]
class sw_number(_IntEnum):
    SW_NUMBER_F32 = 0
    SW_NUMBER_F64 = 1
    SW_NUMBER_U8 = 2
    SW_NUMBER_I8 = 3
    SW_NUMBER_BOOL = 4
    SW_NUMBER_U16 = 5
    SW_NUMBER_I16 = 6
    SW_NUMBER_U32 = 7
    SW_NUMBER_I32 = 8
    SW_NUMBER_U64 = 9
    SW_NUMBER_I64 = 10

SW_NUMBER_F32 = sw_number.SW_NUMBER_F32
SW_NUMBER_F64 = sw_number.SW_NUMBER_F64
SW_NUMBER_U8 = sw_number.SW_NUMBER_U8
SW_NUMBER_I8 = sw_number.SW_NUMBER_I8
SW_NUMBER_BOOL = sw_number.SW_NUMBER_BOOL
SW_NUMBER_U16 = sw_number.SW_NUMBER_U16
SW_NUMBER_I16 = sw_number.SW_NUMBER_I16
SW_NUMBER_U32 = sw_number.SW_NUMBER_U32
SW_NUMBER_I32 = sw_number.SW_NUMBER_I32
SW_NUMBER_U64 = sw_number.SW_NUMBER_U64
SW_NUMBER_I64 = sw_number.SW_NUMBER_I64

sw_samples._fields_ = [
    ("data", c_void_p),
    ("type", c_int),
    ("shape", sw_shape),
    ("strides", c_int64 * 9),
    ("scale", c_float),
    ("shift", c_float),
]
sw_arrays_opts._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("n_classes", c_int64),
    ("class_names", P(c_char_p)),
    ("context", c_int64),
]
sw_images_opts._fields_ = [
    ("size", c_size_t),
    ("shapes_only", c_int),
    ("side", c_int),
    ("channels", c_int),
    ("test_share", c_double),
    ("seed", c_uint64),
    ("unpack_bytes", c_size_t),
    ("progress", C(1, None, c_int, c_void_p, c_int64, c_int64)),
    ("user", c_void_p),
    ("unlabelled", c_int64),
    ("threads", c_int64),
    ("batch", c_int64),
    ("test_batch", c_int64),
]
sw_dataset_info._fields_ = [
    ("size", c_size_t),
    ("n", c_int64),
    ("n_classes", c_int64),
    ("n_fields", c_int),
    ("field", sw_array * 4),
    ("name", c_char_p),
    ("class_names", P(c_char_p)),
    ("bytes", c_size_t),
]
sw_class_score._fields_ = [
    ("size", c_size_t),
    ("support", c_uint64),
    ("predicted", c_uint64),
    ("right", c_uint64),
    ("precision", c_double),
    ("recall", c_double),
    ("f1", c_double),
]
sw_loader_opts._fields_ = [
    ("size", c_size_t),
    ("batch", c_int64),
    ("slots", c_int),
    ("seed", c_uint64),
    ("shuffle", c_int),
    ("drop_last", c_int),
    ("budget", P(sw_budget)),
    ("inline_fill", c_int),
    ("keyed", c_uint64),
]
sw_feed_opts._fields_ = [
    ("size", c_size_t),
    ("batch", c_int64),
    ("shuffle", c_int),
    ("drop_last", c_int),
]
sw_member._fields_ = [
    ("of", P(sw_members)),
    ("index", c_uint32),
    ("generation", c_uint32),
]
sw_member_view._fields_ = [
    ("member", sw_member),
    ("state", c_void_p),
    ("state_bytes", c_size_t),
    ("knobs", P(c_float)),
    ("n_knobs", c_int),
    ("seed", c_uint64),
    ("step", c_uint64),
    ("score", c_double),
]
sw_member_fn = C(9, None, c_int, P(sw_member_view), c_void_p)
sw_members_opts._fields_ = [
    ("size", c_size_t),
    ("shape", P(sw_model)),
    ("fn", sw_step_fn),
    ("user", c_void_p),
    ("threads", c_int),
    ("callback", sw_member_fn),
    ("state_bytes", c_size_t),
    ("arena_bytes", c_size_t),
]
sw_members_args._fields_ = [
    ("size", c_size_t),
    ("members", P(sw_member)),
    ("n", c_size_t),
    ("inputs", P(sw_array)),
    ("n_inputs", c_int),
    ("own_inputs", c_int),
    ("mode", c_int),
    ("variant", c_uint32),
    ("step", c_uint64),
    ("run", c_uint32),
    ("feed", P(sw_feed)),
    ("same_data", c_int),
    ("data_seed", c_uint64),
    ("own_steps", c_int),
    ("steps", c_uint32),
]
sw_members_memory._fields_ = [
    ("size", c_size_t),
    ("lanes", c_int),
    ("lane_bytes", c_size_t),
    ("range_bytes", c_size_t),
    ("live_bytes", c_size_t),
    ("step_bytes", c_size_t),
    ("batch_bytes", c_size_t),
]
sw_utility._fields_ = [
    ("tensor", sw_param),
    ("axis", c_int),
    ("n", c_int64),
    ("values", P(c_float)),
    ("reserved", c_uint64 * 2),
]
sw_resize_opts._fields_ = [
    ("size", c_size_t),
    ("seed", c_uint64),
    ("utilities", P(sw_utility)),
    ("n_utilities", c_size_t),
    ("approximate", c_int),
]
sw_resize_info._fields_ = [
    ("size", c_size_t),
    ("from_bytes", c_size_t),
    ("to_bytes", c_size_t),
    ("from_arena_bytes", c_size_t),
    ("to_arena_bytes", c_size_t),
    ("added", c_int64),
    ("dropped", c_int64),
    ("exact", c_int),
]
sw_pack_shape._fields_ = [
    ("member_bytes", c_size_t),
    ("arena_bytes", c_size_t),
    ("batch_bytes", c_size_t),
    ("members", c_size_t),
    ("reserved", c_uint64 * 2),
]
sw_packing._fields_ = [
    ("size", c_size_t),
    ("threads", c_int),
    ("bytes", c_size_t),
    ("all_bytes", c_size_t),
    ("lane_bytes", c_size_t),
    ("resident", c_size_t),
    ("waiting", c_size_t),
    ("resident_bytes", c_size_t),
    ("bound_bytes", c_size_t),
]
sw_checkpoint_opts._fields_ = [
    ("size", c_size_t),
    ("path", c_char_p),
    ("models", P(P(sw_model))),
    ("n_models", c_int),
    ("command", c_char_p),
    ("keep", c_int),
    ("no_copy", c_int),
    ("before", C(9, None, c_int, c_void_p)),
    ("user", c_void_p),
]
sw_checkpoint_info._fields_ = [
    ("size", c_size_t),
    ("busy", c_int),
    ("last", c_int),
    ("saved", c_uint64),
    ("failed", c_uint64),
    ("step", c_uint64),
    ("file_bytes", c_uint64),
    ("copy_ns", c_uint64),
    ("write_ns", c_uint64),
    ("text", c_char * 512),
]
sw_checkpoint_found._fields_ = [
    ("size", c_size_t),
    ("found", c_int),
    ("generation", c_int),
    ("step", c_uint64),
    ("path", c_char * 512),
    ("isa", c_char * 16),
    ("device", c_char * 16),
    ("skipped", c_char * 512),
]
sw_profile_opts._fields_ = [
    ("size", c_size_t),
    ("path", c_char_p),
    ("model", c_char_p),
    ("device", c_char_p),
    ("batch", c_int64),
    ("seed", c_uint64),
    ("command", c_char_p),
    ("data", c_char_p),
    ("events", c_int),
    ("event_room", c_uint32),
    ("every", c_uint64),
    ("max_bytes", c_size_t),
    ("steps", c_uint64),
    ("budget_bytes", c_size_t),
    ("normalise", c_char_p),
]
sw_witness_info._fields_ = [
    ("size", c_size_t),
    ("phase", sw_phase_info * 5),
    ("peak_bytes", c_size_t),
    ("agreed", c_uint32),
    ("n_faults", c_uint32),
    ("first_fault", c_char * 256),
    ("ns", c_uint64),
    ("saved_bytes", c_size_t),
]
class sw_hyper_kind(_IntEnum):
    SW_UNIFORM = 0
    SW_LOG_UNIFORM = 1
    SW_INTEGER = 2
    SW_CHOICE = 3

SW_UNIFORM = sw_hyper_kind.SW_UNIFORM
SW_LOG_UNIFORM = sw_hyper_kind.SW_LOG_UNIFORM
SW_INTEGER = sw_hyper_kind.SW_INTEGER
SW_CHOICE = sw_hyper_kind.SW_CHOICE

sw_hyper._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("kind", c_int),
    ("low", c_double),
    ("high", c_double),
    ("choices", P(c_double)),
    ("labels", P(c_char_p)),
    ("n_choices", c_int),
    ("resample", c_int),
]
class sw_exploit(_IntEnum):
    SW_TRUNCATION = 0
    SW_TOURNAMENT = 1
    SW_T_TEST = 2

SW_TRUNCATION = sw_exploit.SW_TRUNCATION
SW_TOURNAMENT = sw_exploit.SW_TOURNAMENT
SW_T_TEST = sw_exploit.SW_T_TEST

class sw_explore(_IntEnum):
    SW_PERTURB = 0
    SW_PB2 = 1

SW_PERTURB = sw_explore.SW_PERTURB
SW_PB2 = sw_explore.SW_PB2

sw_explore_fn = C(9, None, c_int, c_int, P(c_double), P(c_double), c_int, c_void_p)
sw_pbt_opts._fields_ = [
    ("size", c_size_t),
    ("space", P(sw_space)),
    ("members", c_int),
    ("minimize", c_int),
    ("seed", c_uint64),
    ("interval", c_double),
    ("burn_in", c_double),
    ("quantile", c_double),
    ("replaced", c_double),
    ("donors", c_double),
    ("resample_probability", c_double),
    ("factors", c_double * 2),
    ("synch", c_int),
    ("exploit", c_int),
    ("explore", c_int),
    ("custom", sw_explore_fn),
    ("user", c_void_p),
    ("stop_time", c_double),
    ("stop_score", c_double),
    ("has_stop_score", c_int),
    ("without", c_uint64),
]
class sw_pbt_what(_IntEnum):
    SW_PBT_NONE = 0
    SW_PBT_KEEP = 1
    SW_PBT_DROP = 2
    SW_PBT_EXPLOIT = 3
    SW_PBT_STOP = 4

SW_PBT_NONE = sw_pbt_what.SW_PBT_NONE
SW_PBT_KEEP = sw_pbt_what.SW_PBT_KEEP
SW_PBT_DROP = sw_pbt_what.SW_PBT_DROP
SW_PBT_EXPLOIT = sw_pbt_what.SW_PBT_EXPLOIT
SW_PBT_STOP = sw_pbt_what.SW_PBT_STOP

sw_pbt_event._fields_ = [
    ("size", c_size_t),
    ("what", c_int),
    ("member", c_int),
    ("donor", c_int),
    ("number", c_uint64),
    ("time", c_double),
    ("donor_time", c_double),
    ("score", c_double),
    ("donor_score", c_double),
]
sw_pbt_member._fields_ = [
    ("size", c_size_t),
    ("time", c_double),
    ("score", c_double),
    ("ended", c_int),
    ("kept", c_int),
    ("exploits", c_uint64),
]
sw_es_shape_fn = C(9, None, c_int, P(c_float), c_size_t, c_void_p)
sw_es_opts._fields_ = [
    ("size", c_size_t),
    ("strategy", c_char_p),
    ("noise", c_char_p),
    ("distribution", c_char_p),
    ("rank", c_int),
    ("in_share", c_float),
    ("out_share", c_float),
    ("sigma", c_float),
    ("directions", c_uint32),
    ("repeats", c_uint32),
    ("no_antithetic", c_int),
    ("slice", c_uint32),
    ("shaping", c_char_p),
    ("top", c_uint32),
    ("maximise", c_int),
    ("l1", c_float),
    ("l2", c_float),
    ("seed", c_uint64),
    ("shape", sw_es_shape_fn),
    ("shape_user", c_void_p),
    ("sigma_lr", c_float),
]
sw_es_evaluation._fields_ = [
    ("size", c_size_t),
    ("direction", c_uint32),
    ("repeat", c_uint32),
    ("sign", c_float),
    ("counts", c_int),
]
sw_es_info._fields_ = [
    ("size", c_size_t),
    ("generation", c_uint64),
    ("evaluations", c_uint64),
    ("not_finite", c_uint64),
    ("mean", c_double),
    ("best", c_double),
    ("worst", c_double),
    ("deviation", c_double),
]
sw_zo_opts._fields_ = [
    ("size", c_size_t),
    ("kind", c_char_p),
    ("eps", c_float),
    ("lr", c_float),
    ("weight_decay", c_float),
    ("rank", c_int),
    ("window", c_uint32),
    ("schedule", P(sw_schedule)),
    ("seed", c_uint64),
    ("max_steps", c_uint64),
]
sw_zo_progress_fn = C(9, None, c_int, c_void_p, c_uint64, c_uint64)
class sw_vertex_kind(_IntEnum):
    SW_VERTEX_INPUT = 0
    SW_VERTEX_LINEAR = 1
    SW_VERTEX_CONV2D = 2
    SW_VERTEX_BATCH_NORM = 3
    SW_VERTEX_MAX_POOL = 4
    SW_VERTEX_AVG_POOL = 5
    SW_VERTEX_GLOBAL_MAX_POOL = 6
    SW_VERTEX_GLOBAL_AVG_POOL = 7
    SW_VERTEX_ACTIVATION = 8
    SW_VERTEX_DROPOUT = 9
    SW_VERTEX_FLATTEN = 10
    SW_VERTEX_ADD = 11
    SW_VERTEX_CONCAT = 12

SW_VERTEX_INPUT = sw_vertex_kind.SW_VERTEX_INPUT
SW_VERTEX_LINEAR = sw_vertex_kind.SW_VERTEX_LINEAR
SW_VERTEX_CONV2D = sw_vertex_kind.SW_VERTEX_CONV2D
SW_VERTEX_BATCH_NORM = sw_vertex_kind.SW_VERTEX_BATCH_NORM
SW_VERTEX_MAX_POOL = sw_vertex_kind.SW_VERTEX_MAX_POOL
SW_VERTEX_AVG_POOL = sw_vertex_kind.SW_VERTEX_AVG_POOL
SW_VERTEX_GLOBAL_MAX_POOL = sw_vertex_kind.SW_VERTEX_GLOBAL_MAX_POOL
SW_VERTEX_GLOBAL_AVG_POOL = sw_vertex_kind.SW_VERTEX_GLOBAL_AVG_POOL
SW_VERTEX_ACTIVATION = sw_vertex_kind.SW_VERTEX_ACTIVATION
SW_VERTEX_DROPOUT = sw_vertex_kind.SW_VERTEX_DROPOUT
SW_VERTEX_FLATTEN = sw_vertex_kind.SW_VERTEX_FLATTEN
SW_VERTEX_ADD = sw_vertex_kind.SW_VERTEX_ADD
SW_VERTEX_CONCAT = sw_vertex_kind.SW_VERTEX_CONCAT

sw_vertex._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("kind", c_int),
    ("activation", c_char_p),
    ("inputs", P(c_uint32)),
    ("n_inputs", c_int),
    ("shield", c_uint32),
    ("kernel", c_int),
    ("stride", c_int),
    ("dilation", c_int),
    ("groups", c_int),
    ("rate", c_float),
    ("channels", c_int64),
    ("height", c_int64),
    ("width", c_int64),
    ("parameters", c_uint64),
    ("update", c_int),
    ("identity", c_int),
]
sw_genome_info._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("n_vertices", c_uint32),
    ("n_edges", c_uint32),
    ("channels", c_int64),
    ("height", c_int64),
    ("width", c_int64),
    ("classes", c_int64),
    ("parameters", c_uint64),
    ("optimizer", c_char_p),
    ("loss", c_char_p),
    ("lr", c_float),
    ("momentum", c_float),
    ("weight_decay", c_float),
    ("clip", c_float),
    ("clip_norm", c_float),
    ("batch", c_int64),
    ("hash", c_uint64),
]
sw_task._fields_ = [
    ("size", c_size_t),
    ("channels", c_int64),
    ("height", c_int64),
    ("width", c_int64),
    ("classes", c_int64),
]
sw_loss_fn = C(0, sw_value, c_uint64, P(sw_ctx), sw_value, sw_value, c_void_p)
sw_gradient_fn = C(0, sw_value, c_uint64, P(sw_ctx), sw_param, sw_value, c_void_p)
sw_named_loss._fields_ = [
    ("name", c_char_p),
    ("fn", sw_loss_fn),
    ("user", c_void_p),
    ("reserved", c_uint64 * 2),
]
sw_net_opts._fields_ = [
    ("size", c_size_t),
    ("scale", c_float * 4),
    ("shift", c_float * 4),
    ("n_scales", c_int),
    ("losses", P(sw_named_loss)),
    ("n_losses", c_int),
    ("hook", sw_gradient_fn),
    ("hook_user", c_void_p),
    ("utility", c_int),
    ("utility_rate", c_float),
]
sw_price._fields_ = [
    ("size", c_size_t),
    ("peak_bytes", c_size_t),
    ("model_bytes", c_size_t),
    ("arena_bytes", c_size_t),
    ("batch_bytes", c_size_t),
    ("operations", c_uint64),
    ("operations_per_sample", c_double),
    ("parameters", c_uint64),
    ("ns", c_uint64),
]
class sw_mutation_kind(_IntEnum):
    SW_MUTATE_SIZE = 0
    SW_MUTATE_ADD_VERTEX = 1
    SW_MUTATE_REMOVE_VERTEX = 2
    SW_MUTATE_ADD_EDGE = 3
    SW_MUTATE_REMOVE_EDGE = 4
    SW_MUTATE_KERNEL = 5
    SW_MUTATE_ACTIVATION = 6
    SW_MUTATE_POOL = 7
    SW_MUTATE_RATE = 8
    SW_MUTATE_OPTIMIZER = 9
    SW_MUTATE_OPTIMIZER_PART = 10
    SW_MUTATE_BATCH = 11
    SW_MUTATE_GROW = 12

SW_MUTATE_SIZE = sw_mutation_kind.SW_MUTATE_SIZE
SW_MUTATE_ADD_VERTEX = sw_mutation_kind.SW_MUTATE_ADD_VERTEX
SW_MUTATE_REMOVE_VERTEX = sw_mutation_kind.SW_MUTATE_REMOVE_VERTEX
SW_MUTATE_ADD_EDGE = sw_mutation_kind.SW_MUTATE_ADD_EDGE
SW_MUTATE_REMOVE_EDGE = sw_mutation_kind.SW_MUTATE_REMOVE_EDGE
SW_MUTATE_KERNEL = sw_mutation_kind.SW_MUTATE_KERNEL
SW_MUTATE_ACTIVATION = sw_mutation_kind.SW_MUTATE_ACTIVATION
SW_MUTATE_POOL = sw_mutation_kind.SW_MUTATE_POOL
SW_MUTATE_RATE = sw_mutation_kind.SW_MUTATE_RATE
SW_MUTATE_OPTIMIZER = sw_mutation_kind.SW_MUTATE_OPTIMIZER
SW_MUTATE_OPTIMIZER_PART = sw_mutation_kind.SW_MUTATE_OPTIMIZER_PART
SW_MUTATE_BATCH = sw_mutation_kind.SW_MUTATE_BATCH
SW_MUTATE_GROW = sw_mutation_kind.SW_MUTATE_GROW

class sw_weigh(_IntEnum):
    SW_WEIGH_NOTHING = 0
    SW_WEIGH_HIGH = 1
    SW_WEIGH_LOW = 2

SW_WEIGH_NOTHING = sw_weigh.SW_WEIGH_NOTHING
SW_WEIGH_HIGH = sw_weigh.SW_WEIGH_HIGH
SW_WEIGH_LOW = sw_weigh.SW_WEIGH_LOW

sw_vertex_filter = C(0, None, c_int, P(sw_genome), c_uint32, c_void_p)
sw_mutation._fields_ = [
    ("kind", c_int),
    ("weigh", c_int),
    ("probability", c_double),
    ("low", c_double),
    ("high", c_double),
    ("space", P(sw_search_space)),
    ("min_vertices", c_uint32),
    ("max_parameters", c_uint64),
    ("filter", sw_vertex_filter),
    ("user", c_void_p),
    ("reserved", c_uint64 * 2),
]
sw_mutation_record._fields_ = [
    ("size", c_size_t),
    ("kind", c_int),
    ("vertex", c_char_p),
    ("text", c_char_p),
    ("exact", c_int),
]
sw_mutation_fn = C(None, None, None, P(sw_mutation_record), c_void_p)
sw_neuron_utility._fields_ = [
    ("vertex", c_uint32),
    ("n", c_int64),
    ("values", P(c_float)),
    ("reserved", c_uint64 * 2),
]
sw_genome_fits = C(-9, None, c_int, P(sw_genome), c_void_p)
sw_mutate_opts._fields_ = [
    ("size", c_size_t),
    ("mutations", P(sw_mutation)),
    ("n_mutations", c_size_t),
    ("seed", c_uint64),
    ("space", P(sw_search_space)),
    ("utilities", P(sw_neuron_utility)),
    ("n_utilities", c_size_t),
    ("fits", sw_genome_fits),
    ("fits_user", c_void_p),
    ("record", sw_mutation_fn),
    ("record_user", c_void_p),
    ("max_vertices", c_uint32),
    ("max_size", c_int64),
]
sw_crossover_opts._fields_ = [
    ("size", c_size_t),
    ("seed", c_uint64),
    ("vertices", c_double),
    ("optimizer", c_double),
    ("rate", c_double),
    ("batch", c_double),
    ("deviation", c_double),
    ("utilities_a", P(sw_neuron_utility)),
    ("utilities_b", P(sw_neuron_utility)),
    ("n_utilities_a", c_size_t),
    ("n_utilities_b", c_size_t),
]
class sw_selection_kind(_IntEnum):
    SW_SELECT_ELITE = 0
    SW_SELECT_SUS = 1
    SW_SELECT_TOURNAMENT = 2

SW_SELECT_ELITE = sw_selection_kind.SW_SELECT_ELITE
SW_SELECT_SUS = sw_selection_kind.SW_SELECT_SUS
SW_SELECT_TOURNAMENT = sw_selection_kind.SW_SELECT_TOURNAMENT

sw_selection._fields_ = [
    ("kind", c_int),
    ("n", c_uint32),
    ("contestants", c_uint32),
    ("p", c_double),
    ("stage", c_int),
    ("keep", c_int),
    ("reserved", c_uint64 * 2),
]
class sw_fitness_kind(_IntEnum):
    SW_FITNESS_ACCURACY = 0
    SW_FITNESS_TRAIN_ACCURACY = 1
    SW_FITNESS_LOSS = 2
    SW_FITNESS_TIME = 3
    SW_FITNESS_PARAMETERS = 4
    SW_FITNESS_PEAK_BYTES = 5
    SW_FITNESS_OPERATIONS = 6
    SW_FITNESS_CUSTOM = 7

SW_FITNESS_ACCURACY = sw_fitness_kind.SW_FITNESS_ACCURACY
SW_FITNESS_TRAIN_ACCURACY = sw_fitness_kind.SW_FITNESS_TRAIN_ACCURACY
SW_FITNESS_LOSS = sw_fitness_kind.SW_FITNESS_LOSS
SW_FITNESS_TIME = sw_fitness_kind.SW_FITNESS_TIME
SW_FITNESS_PARAMETERS = sw_fitness_kind.SW_FITNESS_PARAMETERS
SW_FITNESS_PEAK_BYTES = sw_fitness_kind.SW_FITNESS_PEAK_BYTES
SW_FITNESS_OPERATIONS = sw_fitness_kind.SW_FITNESS_OPERATIONS
SW_FITNESS_CUSTOM = sw_fitness_kind.SW_FITNESS_CUSTOM

sw_candidate._fields_ = [
    ("size", c_size_t),
    ("id", c_uint64),
    ("parents", c_uint64 * 2),
    ("born", c_uint64),
    ("steps", c_uint64),
    ("genome", P(sw_genome)),
    ("price", P(sw_price)),
    ("measured_bytes", c_size_t),
    ("fitness", c_double),
    ("loss", c_double),
    ("accuracy", c_double),
    ("train_accuracy", c_double),
    ("ns_per_sample", c_uint64),
    ("rank", c_uint32),
    ("invalid", c_int),
    ("why", c_char_p),
]
sw_fitness_fn = C(_nan, None, c_double, P(sw_candidate), c_void_p)
sw_fitness._fields_ = [
    ("kind", c_int),
    ("objective", c_int),
    ("factor", c_double),
    ("average", c_double),
    ("drop", c_double),
    ("map", C(_nan, None, c_double, c_double, c_void_p)),
    ("fn", sw_fitness_fn),
    ("user", c_void_p),
    ("reserved", c_uint64 * 2),
]
sw_evolution_opts._fields_ = [
    ("size", c_size_t),
    ("train", P(sw_dataset)),
    ("validation", P(sw_dataset)),
    ("space", P(sw_search_space)),
    ("first", P(P(sw_genome))),
    ("n_first", c_size_t),
    ("population", c_uint32),
    ("samples", c_uint64),
    ("validation_samples", c_uint64),
    ("seed", c_uint64),
    ("net", P(sw_net_opts)),
    ("mutations", P(sw_mutation)),
    ("n_mutations", c_size_t),
    ("mutate", c_double),
    ("crossover", c_double),
    ("selections", P(sw_selection)),
    ("n_selections", c_size_t),
    ("fitness", P(sw_fitness)),
    ("n_fitness", c_size_t),
    ("candidate_bytes", c_size_t),
    ("dir", c_char_p),
    ("stop", C(1, None, c_int, c_void_p)),
    ("stop_user", c_void_p),
    ("generation_ns", c_uint64),
    ("step_ns", c_uint64),
    ("patience", c_uint32),
]
class sw_evolve_what(_IntEnum):
    SW_EVOLVE_TRAINED = 0
    SW_EVOLVE_EVALUATED = 1
    SW_EVOLVE_GENERATION = 2
    SW_EVOLVE_STOPPED = 3

SW_EVOLVE_TRAINED = sw_evolve_what.SW_EVOLVE_TRAINED
SW_EVOLVE_EVALUATED = sw_evolve_what.SW_EVOLVE_EVALUATED
SW_EVOLVE_GENERATION = sw_evolve_what.SW_EVOLVE_GENERATION
SW_EVOLVE_STOPPED = sw_evolve_what.SW_EVOLVE_STOPPED

sw_evolve_progress._fields_ = [
    ("size", c_size_t),
    ("what", c_int),
    ("generation", c_uint64),
    ("done", c_uint64),
    ("all", c_uint64),
    ("steps", c_uint64),
    ("longest_gap_ns", c_uint64),
    ("mutants", c_uint64),
    ("refused", c_uint64),
]
sw_evolution_memory._fields_ = [
    ("size", c_size_t),
    ("bytes", c_size_t),
    ("peak_bytes", c_size_t),
    ("lane_bytes", c_size_t),
    ("member_bytes", c_size_t),
    ("resident", c_uint32),
    ("resting", c_uint32),
]
sw_grad_desc._fields_ = [
    ("n_makes", c_int),
    ("makes", c_uint8 * 8),
    ("n_operands", c_int),
    ("operands", c_uint16 * 16),
    ("inplace", c_uint32),
    ("scratch_bytes", C(0, None, c_size_t, P(sw_kernel_info))),
    ("kernel", sw_kernel),
    ("select", C(0, None, c_void_p, P(sw_kernel_info))),
    ("operations", C(0, None, c_uint64, P(sw_kernel_info))),
    ("applies", C(0, None, c_int, c_void_p)),
]
sw_rule._fields_ = [
    ("in", P(sw_value)),
    ("out", P(sw_value)),
    ("dout", P(sw_value)),
    ("wanted", P(c_int)),
    ("din", P(sw_value)),
    ("attrs", c_void_p),
    ("n_in", c_int),
]
sw_reference._fields_ = [
    ("in", P(P(c_double))),
    ("in_type", P(sw_type)),
    ("n_in", c_int),
    ("out", P(P(c_double))),
    ("out_type", P(sw_type)),
    ("attrs", c_void_p),
    ("seed", c_uint64),
    ("stream", c_uint32),
    ("step", c_uint32),
    ("run", c_uint32),
]
class sw_fill(_IntEnum):
    SW_FILL_NORMAL = 0
    SW_FILL_AWAY = 1
    SW_FILL_DISTINCT = 2
    SW_FILL_UNIT = 3
    SW_FILL_LABELS = 4
    SW_FILL_BYTES = 5

SW_FILL_NORMAL = sw_fill.SW_FILL_NORMAL
SW_FILL_AWAY = sw_fill.SW_FILL_AWAY
SW_FILL_DISTINCT = sw_fill.SW_FILL_DISTINCT
SW_FILL_UNIT = sw_fill.SW_FILL_UNIT
SW_FILL_LABELS = sw_fill.SW_FILL_LABELS
SW_FILL_BYTES = sw_fill.SW_FILL_BYTES

sw_op_case._fields_ = [
    ("name", c_char_p),
    ("n_in", c_int),
    ("in", sw_type * 4),
    ("fill", c_int * 4),
    ("limit", c_int64),
    ("attrs", c_void_p),
    ("forward_error", c_double),
    ("gradient_error", c_double),
    ("reserved", c_uint64 * 2),
]
sw_op_desc._fields_ = [
    ("size", c_size_t),
    ("name", c_char_p),
    ("n_in", c_int),
    ("max_in", c_int),
    ("n_out", c_int),
    ("n_extra", c_int),
    ("attrs_bytes", c_size_t),
    ("infer", C(9, None, c_int, P(sw_type), c_int, c_void_p, P(sw_type))),
    ("layout", C(0, None, c_int, P(sw_type), c_int, c_void_p)),
    ("image_in", c_uint32),
    ("strided_in", c_uint32),
    ("inplace", c_uint32),
    ("scratch_bytes", C(0, None, c_size_t, P(sw_kernel_info))),
    ("forward", sw_kernel),
    ("select", C(0, None, c_void_p, P(sw_kernel_info))),
    ("view", C(9, None, c_int, P(sw_buffer), c_void_p, P(sw_type), P(c_int64), P(c_int64))),
    ("grads", P(sw_grad_desc)),
    ("n_grads", c_int),
    ("rule", C(None, None, None, P(sw_ctx), P(sw_rule))),
    ("no_gradient", c_int),
    ("random", c_int),
    ("reference", C(9, None, c_int, P(sw_reference))),
    ("cases", P(sw_op_case)),
    ("n_cases", c_int),
    ("phase", c_int),
    ("has_phase", c_int),
    ("operations", C(0, None, c_uint64, P(sw_kernel_info))),
    ("rebuild", c_int),
    ("skips", c_uint64),
    ("unread", C(0, None, c_uint32, P(sw_kernel_info), c_int)),
]

F("sw_status_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_status_name(sw_status status)")
F("sw_last_error", c_char_p, [], [], 0, 0,
  "const char *sw_last_error(void)")
F("sw_last_note", c_char_p, [], [], 0, 0,
  "const char *sw_last_note(void)")
F("sw_interrupt_set", None, [C(1, None, c_int)], [], 0, 0,
  "void sw_interrupt_set(int (*asked)(void))")
F("sw_error_set", c_int, [c_int, c_char_p, c_int, c_char_p], [], 0, 1,
  "sw_status sw_error_set(sw_status status, const char *file, int line, const char *format, ...)")
F("sw_version", c_char_p, [], [], 0, 0,
  "const char *sw_version(void)")
F("sw_dtype_bytes", c_size_t, [c_int], [], 0, 0,
  "size_t sw_dtype_bytes(sw_dtype dtype)")
F("sw_dtype_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_dtype_name(sw_dtype dtype)")
F("sw_phase_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_phase_name(sw_phase phase)")
F("sw_budget_create", c_int, [P(P(sw_budget)), c_size_t], [0], 1, 0,
  "sw_status sw_budget_create(sw_budget **out, size_t bytes)")
F("sw_budget_destroy", None, [P(sw_budget)], [], 0, 0,
  "void sw_budget_destroy(sw_budget *budget)")
F("sw_exec_create", c_int, [P(P(sw_exec)), P(sw_exec_opts)], [0], 1, 0,
  "sw_status sw_exec_create(sw_exec **out, const sw_exec_opts *opts)")
F("sw_exec_destroy", None, [P(sw_exec)], [], 0, 0,
  "void sw_exec_destroy(sw_exec *exec)")
F("sw_exec_set_profile", c_int, [P(sw_exec), P(sw_profile)], [], 1, 0,
  "sw_status sw_exec_set_profile(sw_exec *exec, sw_profile *profile)")
F("sw_exec_device", c_int, [P(sw_exec), P(sw_device_info)], [1], 1, 0,
  "sw_status sw_exec_device(const sw_exec *exec, sw_device_info *out)")
F("sw_model_create", c_int, [P(P(sw_model)), c_char_p], [0], 1, 0,
  "sw_status sw_model_create(sw_model **out, const char *name)")
F("sw_model_destroy", None, [P(sw_model)], [], 0, 0,
  "void sw_model_destroy(sw_model *model)")
F("sw_param_new", sw_param, [P(sw_model), c_char_p, c_int, sw_shape, c_char_p], [], 0, 0,
  "sw_param sw_param_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape, const char *init)")
F("sw_logits_new", sw_param, [P(sw_model), c_char_p, sw_shape, c_char_p], [], 0, 0,
  "sw_param sw_logits_new(sw_model *model, const char *name, sw_shape shape, const char *init)")
F("sw_buffer_new", sw_param, [P(sw_model), c_char_p, c_int, sw_shape, c_char_p], [], 0, 0,
  "sw_param sw_buffer_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape, const char *init)")
F("sw_state_new", sw_param, [P(sw_model), c_char_p, c_int, sw_shape], [], 0, 0,
  "sw_param sw_state_new(sw_model *model, const char *name, sw_dtype dtype, sw_shape shape)")
F("sw_constant_new", sw_param, [P(sw_model), c_char_p, P(sw_array)], [], 0, 0,
  "sw_param sw_constant_new(sw_model *model, const char *name, const sw_array *values)")
F("sw_param_freeze", None, [sw_param, c_int], [], 0, 0,
  "void sw_param_freeze(sw_param param, int on)")
F("sw_param_find", sw_param, [P(sw_model), c_char_p], [], 0, 0,
  "sw_param sw_param_find(sw_model *model, const char *name)")
F("sw_param_count", c_size_t, [P(sw_model)], [], 0, 0,
  "size_t sw_param_count(const sw_model *model)")
F("sw_param_at", sw_param, [P(sw_model), c_size_t], [], 0, 0,
  "sw_param sw_param_at(sw_model *model, size_t i)")
F("sw_param_name", c_char_p, [sw_param], [], 0, 0,
  "const char *sw_param_name(sw_param param)")
F("sw_param_shape", sw_shape, [sw_param], [], 0, 0,
  "sw_shape sw_param_shape(sw_param param)")
F("sw_param_read", c_int, [sw_param, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_param_read(sw_param param, void *to, size_t bytes)")
F("sw_param_write", c_int, [sw_param, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_param_write(sw_param param, const void *from, size_t bytes)")
F("sw_param_gradient", c_int, [sw_param, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_param_gradient(sw_param param, void *to, size_t bytes)")
F("sw_model_ready", c_int, [P(sw_model), P(sw_exec), c_uint64], [], 1, 0,
  "sw_status sw_model_ready(sw_model *model, sw_exec *exec, uint64_t seed)")
F("sw_model_copy", c_int, [P(sw_model), P(sw_model)], [], 1, 0,
  "sw_status sw_model_copy(sw_model *to, const sw_model *from)")
F("sw_model_bytes", c_int, [P(sw_model), P(c_size_t)], [1], 1, 0,
  "sw_status sw_model_bytes(sw_model *model, size_t *out)")
F("sw_model_layout_hash", c_uint64, [P(sw_model)], [], 0, 0,
  "uint64_t sw_model_layout_hash(sw_model *model)")
F("sw_knob_new", sw_knob, [P(sw_model), c_char_p, c_float], [], 0, 0,
  "sw_knob sw_knob_new(sw_model *model, const char *name, float value)")
F("sw_knob_find", sw_knob, [P(sw_model), c_char_p], [], 0, 0,
  "sw_knob sw_knob_find(sw_model *model, const char *name)")
F("sw_knob_set", None, [sw_knob, c_float], [], 0, 0,
  "void sw_knob_set(sw_knob knob, float value)")
F("sw_knob_get", c_float, [sw_knob], [], 0, 0,
  "float sw_knob_get(sw_knob knob)")
F("sw_linear_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value], [], 0, 0,
  "sw_value sw_linear_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias)")
F("sw_conv2d_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_int, c_int], [], 0, 0,
  "sw_value sw_conv2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, int stride, int pad)")
F("sw_conv2d_op_with", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, P(sw_conv_opts)], [], 0, 0,
  "sw_value sw_conv2d_op_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, const sw_conv_opts *opts)")
F("sw_conv_transpose2d_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, P(sw_conv_transpose_opts)], [], 0, 0,
  "sw_value sw_conv_transpose2d_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, const sw_conv_transpose_opts *opts)")
F("sw_embedding_op", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_embedding_op(sw_ctx *ctx, sw_value ids, sw_value table)")
F("sw_matmul", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_matmul(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_dropout", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_dropout(sw_ctx *ctx, sw_value x, float p)")
F("sw_dropout_knob", sw_value, [P(sw_ctx), sw_value, sw_knob], [], 0, 0,
  "sw_value sw_dropout_knob(sw_ctx *ctx, sw_value x, sw_knob p)")
F("sw_random_flip", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_random_flip(sw_ctx *ctx, sw_value x, float p)")
F("sw_random_crop", sw_value, [P(sw_ctx), sw_value, c_int], [], 0, 0,
  "sw_value sw_random_crop(sw_ctx *ctx, sw_value x, int pad)")
F("sw_layer_norm_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_float], [], 0, 0,
  "sw_value sw_layer_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, float epsilon)")
F("sw_rms_norm_op", sw_value, [P(sw_ctx), sw_value, sw_value, c_float], [], 0, 0,
  "sw_value sw_rms_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, float epsilon)")
F("sw_group_norm_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_int64, c_float], [], 0, 0,
  "sw_value sw_group_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, int64_t groups, float epsilon)")
F("sw_batch_norm_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, sw_param, sw_param, c_float, c_float], [], 0, 0,
  "sw_value sw_batch_norm_op(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, sw_param running_mean, sw_param running_var, float momentum, float epsilon)")
F("sw_attention", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_int, c_int, c_float], [], 0, 0,
  "sw_value sw_attention(sw_ctx *ctx, sw_value q, sw_value k, sw_value v, int heads, int causal, float scale)")
F("sw_relu", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_relu(sw_ctx *ctx, sw_value x)")
F("sw_leaky_relu", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_leaky_relu(sw_ctx *ctx, sw_value x, float slope)")
F("sw_tanh", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_tanh(sw_ctx *ctx, sw_value x)")
F("sw_sigmoid", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_sigmoid(sw_ctx *ctx, sw_value x)")
F("sw_swish", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_swish(sw_ctx *ctx, sw_value x)")
F("sw_gelu", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_gelu(sw_ctx *ctx, sw_value x)")
F("sw_gelu_tanh", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_gelu_tanh(sw_ctx *ctx, sw_value x)")
F("sw_mish", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_mish(sw_ctx *ctx, sw_value x)")
F("sw_softplus", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_softplus(sw_ctx *ctx, sw_value x)")
F("sw_hard_swish", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_hard_swish(sw_ctx *ctx, sw_value x)")
F("sw_elu", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_elu(sw_ctx *ctx, sw_value x, float alpha)")
F("sw_selu", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_selu(sw_ctx *ctx, sw_value x)")
F("sw_exp", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_exp(sw_ctx *ctx, sw_value x)")
F("sw_log", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_log(sw_ctx *ctx, sw_value x)")
F("sw_sqrt", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_sqrt(sw_ctx *ctx, sw_value x)")
F("sw_rsqrt", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_rsqrt(sw_ctx *ctx, sw_value x)")
F("sw_pow", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_pow(sw_ctx *ctx, sw_value x, float exponent)")
F("sw_abs", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_abs(sw_ctx *ctx, sw_value x)")
F("sw_clamp", sw_value, [P(sw_ctx), sw_value, c_float, c_float], [], 0, 0,
  "sw_value sw_clamp(sw_ctx *ctx, sw_value x, float low, float high)")
F("sw_add", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_add(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_mul", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_mul(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_sub", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_sub(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_div", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_div(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_where", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value], [], 0, 0,
  "sw_value sw_where(sw_ctx *ctx, sw_value mask, sw_value a, sw_value b)")
F("sw_swiglu", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_swiglu(sw_ctx *ctx, sw_value a, sw_value b)")
F("sw_lstm_cell", sw_value, [P(sw_ctx), sw_value, sw_value, P(sw_value)], [3], 0, 0,
  "sw_value sw_lstm_cell(sw_ctx *ctx, sw_value gates, sw_value cell, sw_value *next)")
F("sw_gru_cell", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value], [], 0, 0,
  "sw_value sw_gru_cell(sw_ctx *ctx, sw_value a, sw_value b, sw_value c)")
F("sw_scale", sw_value, [P(sw_ctx), sw_value, sw_knob], [], 0, 0,
  "sw_value sw_scale(sw_ctx *ctx, sw_value x, sw_knob factor)")
F("sw_scale_by", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_scale_by(sw_ctx *ctx, sw_value x, float factor)")
F("sw_to_f32", sw_value, [P(sw_ctx), sw_value, c_float, c_float], [], 0, 0,
  "sw_value sw_to_f32(sw_ctx *ctx, sw_value x, float scale, float shift)")
F("sw_to_f32_channels", sw_value, [P(sw_ctx), sw_value, P(c_float), P(c_float), c_int], [], 0, 0,
  "sw_value sw_to_f32_channels(sw_ctx *ctx, sw_value x, const float *scale, const float *shift, int n)")
F("sw_max_pool", sw_value, [P(sw_ctx), sw_value, c_int], [], 0, 0,
  "sw_value sw_max_pool(sw_ctx *ctx, sw_value x, int k)")
F("sw_avg_pool", sw_value, [P(sw_ctx), sw_value, c_int], [], 0, 0,
  "sw_value sw_avg_pool(sw_ctx *ctx, sw_value x, int k)")
F("sw_max_pool2d", sw_value, [P(sw_ctx), sw_value, c_int, c_int, c_int], [], 0, 0,
  "sw_value sw_max_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad)")
F("sw_avg_pool2d", sw_value, [P(sw_ctx), sw_value, c_int, c_int, c_int], [], 0, 0,
  "sw_value sw_avg_pool2d(sw_ctx *ctx, sw_value x, int k, int stride, int pad)")
F("sw_global_max_pool", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_global_max_pool(sw_ctx *ctx, sw_value x)")
F("sw_global_avg_pool", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_global_avg_pool(sw_ctx *ctx, sw_value x)")
F("sw_upsample", sw_value, [P(sw_ctx), sw_value, c_int, c_int], [], 0, 0,
  "sw_value sw_upsample(sw_ctx *ctx, sw_value x, int factor, sw_upsample_mode mode)")
F("sw_upsample_to", sw_value, [P(sw_ctx), sw_value, c_int64, c_int64, c_int], [], 0, 0,
  "sw_value sw_upsample_to(sw_ctx *ctx, sw_value x, int64_t h, int64_t w, sw_upsample_mode mode)")
F("sw_binarize", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_binarize(sw_ctx *ctx, sw_value x, float threshold)")
F("sw_binary_linear_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_int], [], 0, 0,
  "sw_value sw_binary_linear_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias, sw_binary_result what)")
F("sw_binary_conv2d_op", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, c_int, c_int, c_int], [], 0, 0,
  "sw_value sw_binary_conv2d_op(sw_ctx *ctx, sw_value bits, sw_value logits, sw_value bias, int stride, int pad, sw_binary_result what)")
F("sw_binary_max_pool2d", sw_value, [P(sw_ctx), sw_value, c_int, c_int], [], 0, 0,
  "sw_value sw_binary_max_pool2d(sw_ctx *ctx, sw_value bits, int k, int stride)")
F("sw_channel_scale", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_channel_scale(sw_ctx *ctx, sw_value x, sw_value s)")
F("sw_full", sw_value, [P(sw_ctx), sw_shape, c_float], [], 0, 0,
  "sw_value sw_full(sw_ctx *ctx, sw_shape shape, float value)")
F("sw_reshape", sw_value, [P(sw_ctx), sw_value, sw_shape], [], 0, 0,
  "sw_value sw_reshape(sw_ctx *ctx, sw_value x, sw_shape shape)")
F("sw_flatten", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_flatten(sw_ctx *ctx, sw_value x)")
F("sw_slice", sw_value, [P(sw_ctx), sw_value, c_int, c_int64, c_int64], [], 0, 0,
  "sw_value sw_slice(sw_ctx *ctx, sw_value x, int axis, int64_t from, int64_t n)")
F("sw_permute", sw_value, [P(sw_ctx), sw_value, P(c_int), c_int], [], 0, 0,
  "sw_value sw_permute(sw_ctx *ctx, sw_value x, const int *axes, int n)")
F("sw_transpose", sw_value, [P(sw_ctx), sw_value, c_int, c_int], [], 0, 0,
  "sw_value sw_transpose(sw_ctx *ctx, sw_value x, int axis_a, int axis_b)")
F("sw_split", c_int, [P(sw_ctx), sw_value, c_int64, c_int, P(sw_value), c_int], [4], 0, 0,
  "int sw_split(sw_ctx *ctx, sw_value x, int64_t size, int axis, sw_value *parts, int max_parts)")
F("sw_concat", sw_value, [P(sw_ctx), P(sw_value), c_int, c_int], [], 0, 0,
  "sw_value sw_concat(sw_ctx *ctx, const sw_value *x, int n, int axis)")
F("sw_stack", sw_value, [P(sw_ctx), P(sw_value), c_int, c_int], [], 0, 0,
  "sw_value sw_stack(sw_ctx *ctx, const sw_value *x, int n, int axis)")
F("sw_detach", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_detach(sw_ctx *ctx, sw_value x)")
F("sw_sum", sw_value, [P(sw_ctx), sw_value, c_uint32], [], 0, 0,
  "sw_value sw_sum(sw_ctx *ctx, sw_value x, uint32_t axes)")
F("sw_mean", sw_value, [P(sw_ctx), sw_value, c_uint32], [], 0, 0,
  "sw_value sw_mean(sw_ctx *ctx, sw_value x, uint32_t axes)")
F("sw_max", sw_value, [P(sw_ctx), sw_value, c_uint32], [], 0, 0,
  "sw_value sw_max(sw_ctx *ctx, sw_value x, uint32_t axes)")
F("sw_sum_axes", sw_value, [P(sw_ctx), sw_value, P(c_int), c_int, c_int], [], 0, 0,
  "sw_value sw_sum_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)")
F("sw_mean_axes", sw_value, [P(sw_ctx), sw_value, P(c_int), c_int, c_int], [], 0, 0,
  "sw_value sw_mean_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)")
F("sw_max_axes", sw_value, [P(sw_ctx), sw_value, P(c_int), c_int, c_int], [], 0, 0,
  "sw_value sw_max_axes(sw_ctx *ctx, sw_value x, const int *axes, int n, int keepdim)")
F("sw_argmax", sw_value, [P(sw_ctx), sw_value, c_int, c_int], [], 0, 0,
  "sw_value sw_argmax(sw_ctx *ctx, sw_value x, int axis, int keepdim)")
F("sw_cumsum", sw_value, [P(sw_ctx), sw_value, c_int], [], 0, 0,
  "sw_value sw_cumsum(sw_ctx *ctx, sw_value x, int axis)")
F("sw_softmax", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_softmax(sw_ctx *ctx, sw_value x)")
F("sw_log_softmax", sw_value, [P(sw_ctx), sw_value], [], 0, 0,
  "sw_value sw_log_softmax(sw_ctx *ctx, sw_value x)")
F("sw_randn", sw_value, [P(sw_ctx), c_char_p, sw_shape], [], 0, 0,
  "sw_value sw_randn(sw_ctx *ctx, const char *stream, sw_shape shape)")
F("sw_rand", sw_value, [P(sw_ctx), c_char_p, sw_shape], [], 0, 0,
  "sw_value sw_rand(sw_ctx *ctx, const char *stream, sw_shape shape)")
F("sw_softmax_ce", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_softmax_ce(sw_ctx *ctx, sw_value logits, sw_value labels)")
F("sw_softmax_ce_with", sw_value, [P(sw_ctx), sw_value, sw_value, c_float, c_int32], [], 0, 0,
  "sw_value sw_softmax_ce_with(sw_ctx *ctx, sw_value logits, sw_value labels, float smoothing, int32_t ignore)")
F("sw_linear_ce", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, sw_value], [], 0, 0,
  "sw_value sw_linear_ce(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, sw_value labels)")
F("sw_linear_ce_with", sw_value, [P(sw_ctx), sw_value, sw_value, sw_value, sw_value, c_float, c_int32], [], 0, 0,
  "sw_value sw_linear_ce_with(sw_ctx *ctx, sw_value x, sw_value weight, sw_value bias, sw_value labels, float smoothing, int32_t ignore)")
F("sw_mse", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_mse(sw_ctx *ctx, sw_value x, sw_value target)")
F("sw_bce", sw_value, [P(sw_ctx), sw_value, c_float], [], 0, 0,
  "sw_value sw_bce(sw_ctx *ctx, sw_value logits, float target)")
F("sw_bce_with", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_bce_with(sw_ctx *ctx, sw_value logits, sw_value targets)")
F("sw_huber", sw_value, [P(sw_ctx), sw_value, sw_value, c_float], [], 0, 0,
  "sw_value sw_huber(sw_ctx *ctx, sw_value x, sw_value target, float delta)")
F("sw_l1", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_l1(sw_ctx *ctx, sw_value x, sw_value target)")
F("sw_kl_div", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_kl_div(sw_ctx *ctx, sw_value log_probabilities, sw_value probabilities)")
F("sw_accuracy", sw_value, [P(sw_ctx), sw_value, sw_value], [], 0, 0,
  "sw_value sw_accuracy(sw_ctx *ctx, sw_value logits, sw_value labels)")
F("sw_linear_new", sw_linear, [P(sw_model), c_char_p, c_int64, c_int64], [], 0, 0,
  "sw_linear sw_linear_new(sw_model *model, const char *name, int64_t in, int64_t out)")
F("sw_lstm_new", sw_lstm, [P(sw_model), c_char_p, c_int64, c_int64], [], 0, 0,
  "sw_lstm sw_lstm_new(sw_model *model, const char *name, int64_t in, int64_t hidden)")
F("sw_gru_new", sw_gru, [P(sw_model), c_char_p, c_int64, c_int64], [], 0, 0,
  "sw_gru sw_gru_new(sw_model *model, const char *name, int64_t in, int64_t hidden)")
F("sw_embedding_new", sw_embedding, [P(sw_model), c_char_p, c_int64, c_int64], [], 0, 0,
  "sw_embedding sw_embedding_new(sw_model *model, const char *name, int64_t vocabulary, int64_t width)")
F("sw_layer_norm_new", sw_layer_norm, [P(sw_model), c_char_p, c_int64], [], 0, 0,
  "sw_layer_norm sw_layer_norm_new(sw_model *model, const char *name, int64_t size)")
F("sw_rms_norm_new", sw_rms_norm, [P(sw_model), c_char_p, c_int64], [], 0, 0,
  "sw_rms_norm sw_rms_norm_new(sw_model *model, const char *name, int64_t size)")
F("sw_group_norm_new", sw_group_norm, [P(sw_model), c_char_p, c_int64, c_int64], [], 0, 0,
  "sw_group_norm sw_group_norm_new(sw_model *model, const char *name, int64_t groups, int64_t channels)")
F("sw_batch_norm2d_new", sw_batch_norm2d, [P(sw_model), c_char_p, c_int64], [], 0, 0,
  "sw_batch_norm2d sw_batch_norm2d_new(sw_model *model, const char *name, int64_t channels)")
F("sw_conv2d_new", sw_conv2d, [P(sw_model), c_char_p, c_int64, c_int64, c_int], [], 0, 0,
  "sw_conv2d sw_conv2d_new(sw_model *model, const char *name, int64_t in, int64_t out, int kernel)")
F("sw_conv2d_new_with", sw_conv2d, [P(sw_model), c_char_p, c_int64, c_int64, c_int, P(sw_conv_opts)], [], 0, 0,
  "sw_conv2d sw_conv2d_new_with(sw_model *model, const char *name, int64_t in, int64_t out, int kernel, const sw_conv_opts *opts)")
F("sw_conv_transpose2d_new", sw_conv_transpose2d, [P(sw_model), c_char_p, c_int64, c_int64, c_int, P(sw_conv_transpose_opts)], [], 0, 0,
  "sw_conv_transpose2d sw_conv_transpose2d_new(sw_model *model, const char *name, int64_t in, int64_t out, int kernel, const sw_conv_transpose_opts *opts)")
F("sw_binary_linear_new", sw_binary_linear, [P(sw_model), c_char_p, c_int64, c_int64, c_int64], [], 0, 0,
  "sw_binary_linear sw_binary_linear_new(sw_model *model, const char *name, int64_t in, int64_t out, int64_t positions)")
F("sw_binary_conv2d_new", sw_binary_conv2d, [P(sw_model), c_char_p, c_int64, c_int64, c_int], [], 0, 0,
  "sw_binary_conv2d sw_binary_conv2d_new(sw_model *model, const char *name, int64_t in, int64_t out, int kernel)")
F("sw_apply_linear", sw_value, [P(sw_ctx), sw_linear, sw_value], [], 0, 0,
  "sw_value sw_apply_linear(sw_ctx *ctx, sw_linear layer, sw_value x)")
F("sw_apply_conv2d", sw_value, [P(sw_ctx), sw_conv2d, sw_value], [], 0, 0,
  "sw_value sw_apply_conv2d(sw_ctx *ctx, sw_conv2d layer, sw_value x)")
F("sw_apply_conv_transpose2d", sw_value, [P(sw_ctx), sw_conv_transpose2d, sw_value], [], 0, 0,
  "sw_value sw_apply_conv_transpose2d(sw_ctx *ctx, sw_conv_transpose2d layer, sw_value x)")
F("sw_apply_lstm", sw_value, [P(sw_ctx), sw_lstm, sw_value, P(sw_value), P(sw_value)], [3, 4], 0, 0,
  "sw_value sw_apply_lstm(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)")
F("sw_apply_gru", sw_value, [P(sw_ctx), sw_gru, sw_value, P(sw_value)], [3], 0, 0,
  "sw_value sw_apply_gru(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)")
F("sw_apply_lstm_step", sw_value, [P(sw_ctx), sw_lstm, sw_value, P(sw_value), P(sw_value)], [3, 4], 0, 0,
  "sw_value sw_apply_lstm_step(sw_ctx *ctx, sw_lstm layer, sw_value x, sw_value *h, sw_value *c)")
F("sw_apply_gru_step", sw_value, [P(sw_ctx), sw_gru, sw_value, P(sw_value)], [3], 0, 0,
  "sw_value sw_apply_gru_step(sw_ctx *ctx, sw_gru layer, sw_value x, sw_value *h)")
F("sw_apply_embedding", sw_value, [P(sw_ctx), sw_embedding, sw_value], [], 0, 0,
  "sw_value sw_apply_embedding(sw_ctx *ctx, sw_embedding layer, sw_value ids)")
F("sw_apply_layer_norm", sw_value, [P(sw_ctx), sw_layer_norm, sw_value], [], 0, 0,
  "sw_value sw_apply_layer_norm(sw_ctx *ctx, sw_layer_norm layer, sw_value x)")
F("sw_apply_rms_norm", sw_value, [P(sw_ctx), sw_rms_norm, sw_value], [], 0, 0,
  "sw_value sw_apply_rms_norm(sw_ctx *ctx, sw_rms_norm layer, sw_value x)")
F("sw_apply_group_norm", sw_value, [P(sw_ctx), sw_group_norm, sw_value], [], 0, 0,
  "sw_value sw_apply_group_norm(sw_ctx *ctx, sw_group_norm layer, sw_value x)")
F("sw_apply_batch_norm2d", sw_value, [P(sw_ctx), sw_batch_norm2d, sw_value], [], 0, 0,
  "sw_value sw_apply_batch_norm2d(sw_ctx *ctx, sw_batch_norm2d layer, sw_value x)")
F("sw_apply_binary_linear", sw_value, [P(sw_ctx), sw_binary_linear, sw_value, c_int], [], 0, 0,
  "sw_value sw_apply_binary_linear(sw_ctx *ctx, sw_binary_linear layer, sw_value bits, sw_binary_result what)")
F("sw_apply_binary_conv2d", sw_value, [P(sw_ctx), sw_binary_conv2d, sw_value, c_int], [], 0, 0,
  "sw_value sw_apply_binary_conv2d(sw_ctx *ctx, sw_binary_conv2d layer, sw_value bits, sw_binary_result what)")
F("sw_optimizer_create", c_int, [P(P(sw_optimizer)), P(sw_model), P(sw_optimizer_opts)], [0], 1, 0,
  "sw_status sw_optimizer_create(sw_optimizer **out, sw_model *model, const sw_optimizer_opts *opts)")
F("sw_optimizer_kind", c_char_p, [c_size_t], [], 0, 0,
  "const char *sw_optimizer_kind(size_t i)")
F("sw_optimizer_skipped", c_int, [P(sw_optimizer), P(c_uint64), P(c_uint64)], [1, 2], 1, 0,
  "sw_status sw_optimizer_skipped(const sw_optimizer *optimizer, uint64_t *total, uint64_t *in_a_row)")
F("sw_optimizer_lr", sw_knob, [P(sw_optimizer), c_int], [], 0, 0,
  "sw_knob sw_optimizer_lr(sw_optimizer *optimizer, int group)")
F("sw_optimizer_knob", sw_knob, [P(sw_optimizer), c_int, c_char_p], [], 0, 0,
  "sw_knob sw_optimizer_knob(sw_optimizer *optimizer, int group, const char *name)")
F("sw_schedule_kind", c_char_p, [c_size_t], [], 0, 0,
  "const char *sw_schedule_kind(size_t i)")
F("sw_schedule_at", c_int, [P(sw_schedule), c_uint64, P(c_float)], [2], 1, 0,
  "sw_status sw_schedule_at(const sw_schedule *schedule, uint64_t step, float *out)")
F("sw_input", sw_value, [P(sw_ctx), c_int], [], 0, 0,
  "sw_value sw_input(sw_ctx *ctx, int i)")
F("sw_rank", c_int, [P(sw_ctx), sw_value], [], 0, 0,
  "int sw_rank(sw_ctx *ctx, sw_value x)")
F("sw_dim", c_int64, [P(sw_ctx), sw_value, c_int], [], 0, 0,
  "int64_t sw_dim(sw_ctx *ctx, sw_value x, int axis)")
F("sw_ctx_mode", c_int, [P(sw_ctx)], [], 0, 0,
  "sw_mode sw_ctx_mode(sw_ctx *ctx)")
F("sw_use", sw_value, [P(sw_ctx), sw_param], [], 0, 0,
  "sw_value sw_use(sw_ctx *ctx, sw_param param)")
F("sw_assign", None, [P(sw_ctx), sw_param, sw_value], [], 0, 0,
  "void sw_assign(sw_ctx *ctx, sw_param state, sw_value x)")
F("sw_backward", None, [P(sw_ctx), sw_value, P(P(sw_optimizer)), c_int], [], 0, 0,
  "void sw_backward(sw_ctx *ctx, sw_value loss, sw_optimizer *const *optimizers, int n)")
F("sw_accumulate", None, [P(sw_ctx), P(sw_optimizer)], [], 0, 0,
  "void sw_accumulate(sw_ctx *ctx, sw_optimizer *optimizer)")
F("sw_clip_norm", None, [P(sw_ctx), P(sw_optimizer), sw_knob], [], 0, 0,
  "void sw_clip_norm(sw_ctx *ctx, sw_optimizer *optimizer, sw_knob max)")
F("sw_update", None, [P(sw_ctx), P(sw_optimizer)], [], 0, 0,
  "void sw_update(sw_ctx *ctx, sw_optimizer *optimizer)")
F("sw_metric", None, [P(sw_ctx), c_char_p, sw_value], [], 0, 0,
  "void sw_metric(sw_ctx *ctx, const char *name, sw_value scalar)")
F("sw_output", None, [P(sw_ctx), c_char_p, sw_value], [], 0, 0,
  "void sw_output(sw_ctx *ctx, const char *name, sw_value x)")
F("sw_set_phase", None, [P(sw_ctx), c_int], [], 0, 0,
  "void sw_set_phase(sw_ctx *ctx, sw_phase phase)")
F("sw_clear_phase", None, [P(sw_ctx)], [], 0, 0,
  "void sw_clear_phase(sw_ctx *ctx)")
F("sw_scope_begin", None, [P(sw_ctx), c_char_p], [], 0, 0,
  "void sw_scope_begin(sw_ctx *ctx, const char *name)")
F("sw_scope_end", None, [P(sw_ctx)], [], 0, 0,
  "void sw_scope_end(sw_ctx *ctx)")
F("sw_item", c_int, [P(sw_ctx), sw_value, P(c_double)], [2], 1, 0,
  "sw_status sw_item(sw_ctx *ctx, sw_value scalar, double *out)")
F("sw_fail", None, [P(sw_ctx), c_int, c_char_p], [], 0, 0,
  "void sw_fail(sw_ctx *ctx, sw_status status, const char *message)")
F("sw_ctx_status", c_int, [P(sw_ctx)], [], 0, 0,
  "sw_status sw_ctx_status(sw_ctx *ctx)")
F("sw_run", c_int, [P(sw_exec), P(sw_run_args)], [], 1, 0,
  "sw_status sw_run(sw_exec *exec, const sw_run_args *args)")
F("sw_plan", c_int, [P(sw_exec), P(sw_run_args), P(sw_plan_info)], [2], 1, 0,
  "sw_status sw_plan(sw_exec *exec, const sw_run_args *args, sw_plan_info *out)")
F("sw_plan_visit", c_int, [P(sw_exec), P(sw_run_args), P(sw_plan_visitor)], [], 1, 0,
  "sw_status sw_plan_visit(sw_exec *exec, const sw_run_args *args, const sw_plan_visitor *visitor)")
F("sw_plan_layers", c_int, [P(sw_exec), P(sw_run_args), sw_plan_layer_visitor, c_void_p], [], 1, 0,
  "sw_status sw_plan_layers(sw_exec *exec, const sw_run_args *args, sw_plan_layer_visitor *visitor, void *to)")
F("sw_last_run", c_int, [P(sw_exec), P(sw_run_info)], [1], 1, 0,
  "sw_status sw_last_run(const sw_exec *exec, sw_run_info *out)")
F("sw_run_past", c_int, [P(sw_exec), c_int, P(sw_run_info)], [2], 1, 0,
  "sw_status sw_run_past(sw_exec *exec, int ago, sw_run_info *out)")
F("sw_plan_shares", c_int, [P(sw_exec), P(sw_run_args), sw_share_visitor, c_void_p], [], 1, 0,
  "sw_status sw_plan_shares(sw_exec *exec, const sw_run_args *args, sw_share_visitor *visitor, void *to)")
F("sw_last_shares", c_int, [P(sw_exec), sw_share_visitor, c_void_p], [], 1, 0,
  "sw_status sw_last_shares(sw_exec *exec, sw_share_visitor *visitor, void *to)")
F("sw_witness_shares", c_int, [P(sw_exec), sw_share_visitor, c_void_p], [], 1, 0,
  "sw_status sw_witness_shares(sw_exec *exec, sw_share_visitor *visitor, void *to)")
F("sw_metric_get", c_int, [P(sw_exec), c_char_p, P(c_double)], [2], 1, 0,
  "sw_status sw_metric_get(sw_exec *exec, const char *name, double *out)")
F("sw_metric_past", c_int, [P(sw_exec), c_int, c_char_p, P(c_double)], [3], 1, 0,
  "sw_status sw_metric_past(sw_exec *exec, int ago, const char *name, double *out)")
F("sw_output_get", c_int, [P(sw_exec), c_char_p, P(sw_array)], [2], 1, 0,
  "sw_status sw_output_get(sw_exec *exec, const char *name, sw_array *out)")
F("sw_dataset_synthetic", c_int, [P(P(sw_dataset)), c_int64, c_uint64], [0], 1, 0,
  "sw_status sw_dataset_synthetic(sw_dataset **out, int64_t n, uint64_t seed)")
F("sw_dataset_vectors", c_int, [P(P(sw_dataset)), c_int64, c_int64, c_uint64], [0], 1, 0,
  "sw_status sw_dataset_vectors(sw_dataset **out, int64_t n, int64_t width, uint64_t seed)")
F("sw_dataset_idx", c_int, [P(P(sw_dataset)), c_char_p, c_char_p], [0], 1, 0,
  "sw_status sw_dataset_idx(sw_dataset **out, const char *dir, const char *part)")
F("sw_dataset_idx_with", c_int, [P(P(sw_dataset)), c_char_p, c_char_p, P(sw_idx_opts)], [0], 1, 0,
  "sw_status sw_dataset_idx_with(sw_dataset **out, const char *dir, const char *part, const sw_idx_opts *opts)")
F("sw_dataset_cifar", c_int, [P(P(sw_dataset)), c_char_p, c_char_p, P(sw_cifar_opts)], [0], 1, 0,
  "sw_status sw_dataset_cifar(sw_dataset **out, const char *dir, const char *part, const sw_cifar_opts *opts)")
F("sw_dataset_csv", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_csv_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_csv(sw_dataset **train, sw_dataset **test, const char *path, const sw_csv_opts *opts)")
F("sw_dataset_text", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_text_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation, const char *path, const sw_text_opts *opts)")
F("sw_dataset_tokens", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_tokens_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation, const char *path, const sw_tokens_opts *opts)")
F("sw_dataset_npy", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_npy_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_npy(sw_dataset **train, sw_dataset **test, const char *path, const sw_npy_opts *opts)")
F("sw_dataset_npz", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_npy_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_npz(sw_dataset **train, sw_dataset **test, const char *path, const sw_npy_opts *opts)")
F("sw_dataset_arrays", c_int, [P(P(sw_dataset)), c_int64, P(sw_samples), c_int, P(sw_arrays_opts)], [0], 1, 0,
  "sw_status sw_dataset_arrays(sw_dataset **out, int64_t n, const sw_samples *fields, int n_fields, const sw_arrays_opts *opts)")
F("sw_dataset_images", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), c_char_p, P(sw_images_opts)], [0, 1], 1, 0,
  "sw_status sw_dataset_images(sw_dataset **train, sw_dataset **test, const char *dir, const sw_images_opts *opts)")
F("sw_dataset_split", c_int, [P(P(sw_dataset)), P(P(sw_dataset)), P(sw_dataset), c_int64, c_uint64], [0, 1], 1, 0,
  "sw_status sw_dataset_split(sw_dataset **first, sw_dataset **second, const sw_dataset *dataset, int64_t n_second, uint64_t seed)")
F("sw_dataset_hash", c_int, [P(sw_dataset), P(c_uint64)], [1], 1, 0,
  "sw_status sw_dataset_hash(const sw_dataset *dataset, uint64_t *out)")
F("sw_dataset_destroy", None, [P(sw_dataset)], [], 0, 0,
  "void sw_dataset_destroy(sw_dataset *dataset)")
F("sw_dataset_describe", None, [P(sw_dataset), P(sw_dataset_info)], [1], 0, 0,
  "void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out)")
F("sw_dataset_moments", c_int, [P(sw_dataset), c_int, c_int, P(c_float), P(c_float)], [3, 4], 1, 0,
  "sw_status sw_dataset_moments(const sw_dataset *dataset, int field, int n, float *mean, float *deviation)")
F("sw_confusion_add", c_int, [P(c_uint64), c_int64, P(sw_array), P(sw_array)], [0], 1, 0,
  "sw_status sw_confusion_add(uint64_t *counts, int64_t classes, const sw_array *scores, const sw_array *labels)")
F("sw_confusion_class", c_int, [P(c_uint64), c_int64, c_int64, P(sw_class_score)], [3], 1, 0,
  "sw_status sw_confusion_class(const uint64_t *counts, int64_t classes, int64_t k, sw_class_score *out)")
F("sw_confusion_mean", c_int, [P(c_uint64), c_int64, P(sw_class_score)], [2], 1, 0,
  "sw_status sw_confusion_mean(const uint64_t *counts, int64_t classes, sw_class_score *out)")
F("sw_loader_create", c_int, [P(P(sw_loader)), P(sw_dataset), P(sw_loader_opts)], [0], 1, 0,
  "sw_status sw_loader_create(sw_loader **out, const sw_dataset *dataset, const sw_loader_opts *opts)")
F("sw_loader_destroy", None, [P(sw_loader)], [], 0, 0,
  "void sw_loader_destroy(sw_loader *loader)")
F("sw_loader_epoch", c_int, [P(sw_loader), c_uint64], [], 1, 0,
  "sw_status sw_loader_epoch(sw_loader *loader, uint64_t epoch)")
F("sw_loader_next", c_int, [P(sw_loader), P(P(sw_array)), P(c_int)], [1, 2], 1, 0,
  "sw_status sw_loader_next(sw_loader *loader, const sw_array **inputs, int *n_inputs)")
F("sw_loader_seek", c_int, [P(sw_loader), c_uint64, c_int64], [], 1, 0,
  "sw_status sw_loader_seek(sw_loader *loader, uint64_t epoch, int64_t batch)")
F("sw_loader_position", c_int, [P(sw_loader), P(c_uint64), P(c_int64)], [1, 2], 1, 0,
  "sw_status sw_loader_position(const sw_loader *loader, uint64_t *epoch, int64_t *batch)")
F("sw_loader_bytes", c_size_t, [P(sw_loader)], [], 0, 0,
  "size_t sw_loader_bytes(const sw_loader *loader)")
F("sw_loader_batches", c_int64, [P(sw_loader)], [], 0, 0,
  "int64_t sw_loader_batches(const sw_loader *loader)")
F("sw_feed_create", c_int, [P(P(sw_feed)), P(sw_dataset), P(sw_feed_opts)], [0], 1, 0,
  "sw_status sw_feed_create(sw_feed **out, const sw_dataset *dataset, const sw_feed_opts *opts)")
F("sw_feed_destroy", None, [P(sw_feed)], [], 0, 0,
  "void sw_feed_destroy(sw_feed *feed)")
F("sw_feed_batches", c_int64, [P(sw_feed)], [], 0, 0,
  "int64_t sw_feed_batches(const sw_feed *feed)")
F("sw_feed_bytes", c_size_t, [P(sw_feed)], [], 0, 0,
  "size_t sw_feed_bytes(const sw_feed *feed)")
F("sw_feed_sample", c_int, [P(sw_feed), c_uint64, c_uint64, c_int64, P(c_int64)], [4], 1, 0,
  "sw_status sw_feed_sample(const sw_feed *feed, uint64_t stream, uint64_t epoch, int64_t i, int64_t *out)")
F("sw_members_create", c_int, [P(P(sw_members)), P(sw_exec), P(sw_members_opts)], [0], 1, 0,
  "sw_status sw_members_create(sw_members **out, sw_exec *exec, const sw_members_opts *opts)")
F("sw_members_destroy", None, [P(sw_members)], [], 0, 0,
  "void sw_members_destroy(sw_members *members)")
F("sw_members_count", c_size_t, [P(sw_members)], [], 0, 0,
  "size_t sw_members_count(const sw_members *members)")
F("sw_members_bytes", c_size_t, [P(sw_members)], [], 0, 0,
  "size_t sw_members_bytes(const sw_members *members)")
F("sw_member_new", c_int, [P(sw_member), P(sw_members), c_uint64], [0], 1, 0,
  "sw_status sw_member_new(sw_member *out, sw_members *members, uint64_t seed)")
F("sw_member_end", None, [sw_member], [], 0, 0,
  "void sw_member_end(sw_member member)")
F("sw_member_copy", c_int, [sw_member, sw_member], [], 1, 0,
  "sw_status sw_member_copy(sw_member to, sw_member from)")
F("sw_member_to_model", c_int, [P(sw_model), sw_member], [], 1, 0,
  "sw_status sw_member_to_model(sw_model *to, sw_member from)")
F("sw_member_from_model", c_int, [sw_member, P(sw_model)], [], 1, 0,
  "sw_status sw_member_from_model(sw_member to, const sw_model *from)")
F("sw_member_read", c_int, [sw_member, sw_param, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_member_read(sw_member member, sw_param param, void *to, size_t bytes)")
F("sw_member_write", c_int, [sw_member, sw_param, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_member_write(sw_member member, sw_param param, const void *from, size_t bytes)")
F("sw_member_knob_set", c_int, [sw_member, sw_knob, c_float], [], 1, 0,
  "sw_status sw_member_knob_set(sw_member member, sw_knob knob, float value)")
F("sw_member_knob_get", c_int, [sw_member, sw_knob, P(c_float)], [2], 1, 0,
  "sw_status sw_member_knob_get(sw_member member, sw_knob knob, float *out)")
F("sw_members_run", c_int, [P(sw_members), P(sw_members_args)], [], 1, 0,
  "sw_status sw_members_run(sw_members *members, const sw_members_args *args)")
F("sw_members_run_all", c_int, [P(P(sw_members)), P(sw_members_args), c_size_t], [], 1, 0,
  "sw_status sw_members_run_all(sw_members *const *groups, const sw_members_args *args, size_t n)")
F("sw_members_plan", c_int, [P(sw_members), P(sw_members_args), P(c_size_t)], [2], 1, 0,
  "sw_status sw_members_plan(sw_members *members, const sw_members_args *args, size_t *out)")
F("sw_members_look", c_int, [P(sw_members), P(sw_members_args), P(sw_plan_info)], [2], 1, 0,
  "sw_status sw_members_look(sw_members *members, const sw_members_args *args, sw_plan_info *out)")
F("sw_members_used", c_int, [P(sw_members), P(sw_members_memory)], [1], 1, 0,
  "sw_status sw_members_used(const sw_members *members, sw_members_memory *out)")
F("sw_members_visit", c_int, [P(sw_members), P(sw_plan_visitor)], [], 1, 0,
  "sw_status sw_members_visit(sw_members *members, const sw_plan_visitor *visitor)")
F("sw_members_visit_step", c_int, [P(sw_members), P(sw_members_args), P(sw_plan_visitor)], [], 1, 0,
  "sw_status sw_members_visit_step(sw_members *members, const sw_members_args *args, const sw_plan_visitor *visitor)")
F("sw_members_shares", c_int, [P(sw_members), P(sw_members_args), sw_share_visitor, c_void_p], [], 1, 0,
  "sw_status sw_members_shares(sw_members *members, const sw_members_args *args, sw_share_visitor *visitor, void *to)")
F("sw_members_profile", c_int, [P(sw_members), P(sw_members_args), c_size_t, P(sw_profile), c_char_p, P(c_uint32)], [5], 1, 0,
  "sw_status sw_members_profile(sw_members *members, const sw_members_args *args, size_t n, sw_profile *profile, const char *name, uint32_t *shape)")
F("sw_members_metric", c_int, [P(sw_members), c_char_p, P(c_double), c_size_t], [2], 1, 0,
  "sw_status sw_members_metric(sw_members *members, const char *name, double *out, size_t n)")
F("sw_members_mean", c_int, [P(sw_members), c_char_p, P(c_double), c_size_t], [2], 1, 0,
  "sw_status sw_members_mean(sw_members *members, const char *name, double *out, size_t n)")
F("sw_members_status", c_int, [P(sw_members), P(c_int), c_size_t], [1], 1, 0,
  "sw_status sw_members_status(sw_members *members, sw_status *out, size_t n)")
F("sw_member_progress", c_int, [sw_member, P(c_uint64), P(c_uint64)], [1, 2], 1, 0,
  "sw_status sw_member_progress(sw_member member, uint64_t *steps, uint64_t *batches)")
F("sw_member_progress_set", c_int, [sw_member, c_uint64, c_uint64], [], 1, 0,
  "sw_status sw_member_progress_set(sw_member member, uint64_t steps, uint64_t batches)")
F("sw_member_seed", c_int, [sw_member, P(c_uint64)], [1], 1, 0,
  "sw_status sw_member_seed(sw_member member, uint64_t *out)")
F("sw_member_seed_set", c_int, [sw_member, c_uint64], [], 1, 0,
  "sw_status sw_member_seed_set(sw_member member, uint64_t seed)")
F("sw_members_packed_bytes", c_size_t, [P(sw_members)], [], 0, 0,
  "size_t sw_members_packed_bytes(const sw_members *members)")
F("sw_member_pack", c_int, [sw_member, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_member_pack(sw_member member, void *to, size_t bytes)")
F("sw_member_unpack", c_int, [sw_member, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_member_unpack(sw_member member, const void *from, size_t bytes)")
F("sw_model_resize", c_int, [P(sw_model), P(sw_model), P(sw_exec), P(sw_run_args), P(sw_run_args), P(sw_resize_opts)], [], 1, 0,
  "sw_status sw_model_resize(sw_model *to, const sw_model *from, sw_exec *exec, const sw_run_args *args_to, const sw_run_args *args_from, const sw_resize_opts *opts)")
F("sw_member_resize", c_int, [sw_member, sw_member, P(sw_members_args), P(sw_resize_opts)], [], 1, 0,
  "sw_status sw_member_resize(sw_member to, sw_member from, const sw_members_args *args, const sw_resize_opts *opts)")
F("sw_model_resize_plan", c_int, [P(sw_model), P(sw_model), P(sw_exec), P(sw_run_args), P(sw_run_args), P(sw_resize_opts), P(sw_resize_info)], [6], 1, 0,
  "sw_status sw_model_resize_plan(sw_model *to, sw_model *from, sw_exec *exec, const sw_run_args *args_to, const sw_run_args *args_from, const sw_resize_opts *opts, sw_resize_info *out)")
F("sw_members_resize_plan", c_int, [P(sw_members), P(sw_members), P(sw_members_args), P(sw_resize_opts), P(sw_resize_info)], [4], 1, 0,
  "sw_status sw_members_resize_plan(sw_members *to, sw_members *from, const sw_members_args *args, const sw_resize_opts *opts, sw_resize_info *out)")
F("sw_pack", c_int, [P(sw_pack_shape), c_size_t, c_size_t, c_int, P(c_size_t), P(sw_packing)], [4, 5], 1, 0,
  "sw_status sw_pack(const sw_pack_shape *shapes, size_t n, size_t budget, int threads, size_t *resident, sw_packing *out)")
F("sw_model_save", c_int, [P(sw_model), c_char_p], [], 1, 0,
  "sw_status sw_model_save(const sw_model *model, const char *path)")
F("sw_model_load", c_int, [P(sw_model), c_char_p], [], 1, 0,
  "sw_status sw_model_load(sw_model *model, const char *path)")
F("sw_model_note", c_int, [P(sw_model), c_char_p, c_char_p], [], 1, 0,
  "sw_status sw_model_note(sw_model *model, const char *key, const char *text)")
F("sw_params_note", c_int, [c_char_p, c_char_p, P(c_char), c_size_t], [], 1, 0,
  "sw_status sw_params_note(const char *path, const char *key, char *text, size_t bytes)")
F("sw_checkpoint_create", c_int, [P(P(sw_checkpoint)), P(sw_exec), P(sw_checkpoint_opts)], [0], 1, 0,
  "sw_status sw_checkpoint_create(sw_checkpoint **out, sw_exec *exec, const sw_checkpoint_opts *opts)")
F("sw_checkpoint_destroy", None, [P(sw_checkpoint)], [], 0, 0,
  "void sw_checkpoint_destroy(sw_checkpoint *checkpoint)")
F("sw_checkpoint_loader", c_int, [P(sw_checkpoint), P(sw_loader)], [], 1, 0,
  "sw_status sw_checkpoint_loader(sw_checkpoint *checkpoint, sw_loader *loader)")
F("sw_checkpoint_members", c_int, [P(sw_checkpoint), P(sw_members), P(sw_member), c_size_t], [], 1, 0,
  "sw_status sw_checkpoint_members(sw_checkpoint *checkpoint, sw_members *members, const sw_member *list, size_t n)")
F("sw_checkpoint_ready", c_int, [P(sw_checkpoint)], [], 1, 0,
  "sw_status sw_checkpoint_ready(sw_checkpoint *checkpoint)")
F("sw_checkpoint_bytes", c_size_t, [P(sw_checkpoint)], [], 0, 0,
  "size_t sw_checkpoint_bytes(const sw_checkpoint *checkpoint)")
F("sw_checkpoint_put", c_int, [P(sw_checkpoint), c_char_p, c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_checkpoint_put(sw_checkpoint *checkpoint, const char *name, const void *bytes, size_t n)")
F("sw_checkpoint_take", c_int, [P(sw_checkpoint), c_uint64], [], 1, 0,
  "sw_status sw_checkpoint_take(sw_checkpoint *checkpoint, uint64_t step)")
F("sw_checkpoint_write", c_int, [P(sw_checkpoint)], [], 1, 0,
  "sw_status sw_checkpoint_write(sw_checkpoint *checkpoint)")
F("sw_checkpoint_wait", c_int, [P(sw_checkpoint)], [], 1, 0,
  "sw_status sw_checkpoint_wait(sw_checkpoint *checkpoint)")
F("sw_checkpoint_save", c_int, [P(sw_checkpoint), c_uint64], [], 1, 0,
  "sw_status sw_checkpoint_save(sw_checkpoint *checkpoint, uint64_t step)")
F("sw_checkpoint_describe", c_int, [P(sw_checkpoint), P(sw_checkpoint_info)], [1], 1, 0,
  "sw_status sw_checkpoint_describe(sw_checkpoint *checkpoint, sw_checkpoint_info *out)")
F("sw_checkpoint_find", c_int, [P(sw_checkpoint), c_char_p, P(sw_checkpoint_found)], [2], 1, 0,
  "sw_status sw_checkpoint_find(sw_checkpoint *checkpoint, const char *path, sw_checkpoint_found *out)")
F("sw_checkpoint_get", c_int, [P(sw_checkpoint), c_char_p, P(c_void_p), P(c_size_t)], [2, 3], 1, 0,
  "sw_status sw_checkpoint_get(sw_checkpoint *checkpoint, const char *name, const void **bytes, size_t *n)")
F("sw_checkpoint_load", c_int, [P(sw_checkpoint)], [], 1, 0,
  "sw_status sw_checkpoint_load(sw_checkpoint *checkpoint)")
F("sw_profile_create", c_int, [P(P(sw_profile)), P(sw_profile_opts)], [0], 1, 0,
  "sw_status sw_profile_create(sw_profile **out, const sw_profile_opts *opts)")
F("sw_profile_least", c_int, [P(sw_exec), P(sw_run_args), c_int, P(sw_profile_opts), P(c_size_t)], [4], 1, 0,
  "sw_status sw_profile_least(sw_exec *exec, const sw_run_args *args, int n, const sw_profile_opts *opts, size_t *out)")
F("sw_profile_flush", c_int, [P(sw_profile)], [], 1, 0,
  "sw_status sw_profile_flush(sw_profile *profile)")
F("sw_profile_sync", c_int, [P(sw_profile)], [], 1, 0,
  "sw_status sw_profile_sync(sw_profile *profile)")
F("sw_profile_end_status", None, [P(sw_profile), c_int, c_char_p], [], 0, 0,
  "void sw_profile_end_status(sw_profile *profile, sw_status status, const char *why)")
F("sw_profile_destroy", c_int, [P(sw_profile)], [], 1, 0,
  "sw_status sw_profile_destroy(sw_profile *profile)")
F("sw_witness", c_int, [P(sw_exec), P(sw_run_args), c_uint32, P(sw_witness_info)], [3], 1, 0,
  "sw_status sw_witness(sw_exec *exec, const sw_run_args *args, uint32_t which, sw_witness_info *out)")
F("sw_space_create", c_int, [P(P(sw_space))], [0], 1, 0,
  "sw_status sw_space_create(sw_space **out)")
F("sw_space_destroy", None, [P(sw_space)], [], 0, 0,
  "void sw_space_destroy(sw_space *space)")
F("sw_space_add", c_int, [P(sw_space), P(sw_hyper)], [], 1, 0,
  "sw_status sw_space_add(sw_space *space, const sw_hyper *hyper)")
F("sw_space_parse", c_int, [P(sw_space), c_char_p], [], 1, 0,
  "sw_status sw_space_parse(sw_space *space, const char *text)")
F("sw_space_count", c_int, [P(sw_space)], [], 0, 0,
  "int sw_space_count(const sw_space *space)")
F("sw_space_find", c_int, [P(sw_space), c_char_p], [], 0, 0,
  "int sw_space_find(const sw_space *space, const char *name)")
F("sw_space_at", c_int, [P(sw_space), c_int, P(sw_hyper)], [2], 1, 0,
  "sw_status sw_space_at(const sw_space *space, int i, sw_hyper *out)")
F("sw_space_draw", c_int, [P(sw_space), c_int, c_uint64, c_uint64, P(c_double)], [4], 1, 0,
  "sw_status sw_space_draw(const sw_space *space, int i, uint64_t seed, uint64_t draw, double *out)")
F("sw_space_has", c_int, [P(sw_space), c_int, c_double], [], 0, 0,
  "int sw_space_has(const sw_space *space, int i, double value)")
F("sw_pbt_create", c_int, [P(P(sw_pbt)), P(sw_pbt_opts)], [0], 1, 0,
  "sw_status sw_pbt_create(sw_pbt **out, const sw_pbt_opts *opts)")
F("sw_pbt_destroy", None, [P(sw_pbt)], [], 0, 0,
  "void sw_pbt_destroy(sw_pbt *pbt)")
F("sw_pbt_value", c_int, [P(sw_pbt), c_int, c_int, P(c_double)], [3], 1, 0,
  "sw_status sw_pbt_value(const sw_pbt *pbt, int member, int hyper, double *out)")
F("sw_pbt_value_set", c_int, [P(sw_pbt), c_int, c_int, c_double], [], 1, 0,
  "sw_status sw_pbt_value_set(sw_pbt *pbt, int member, int hyper, double value)")
F("sw_pbt_next", c_int, [P(sw_pbt), P(c_int), c_int, P(c_int), P(c_double)], [1, 3, 4], 1, 0,
  "sw_status sw_pbt_next(sw_pbt *pbt, int *members, int room, int *n, double *until)")
F("sw_pbt_report", c_int, [P(sw_pbt), c_int, c_double, c_double], [], 1, 0,
  "sw_status sw_pbt_report(sw_pbt *pbt, int member, double time, double score)")
F("sw_pbt_leave", c_int, [P(sw_pbt), c_int], [], 1, 0,
  "sw_status sw_pbt_leave(sw_pbt *pbt, int member)")
F("sw_pbt_next_event", c_int, [P(sw_pbt), P(sw_pbt_event)], [1], 1, 0,
  "sw_status sw_pbt_next_event(sw_pbt *pbt, sw_pbt_event *out)")
F("sw_pbt_describe", c_int, [P(sw_pbt), c_int, P(sw_pbt_member)], [2], 1, 0,
  "sw_status sw_pbt_describe(const sw_pbt *pbt, int member, sw_pbt_member *out)")
F("sw_pbt_log", c_int, [P(sw_pbt), c_char_p], [], 1, 0,
  "sw_status sw_pbt_log(sw_pbt *pbt, const char *dir)")
F("sw_pbt_save", c_int, [P(sw_pbt), P(c_void_p), P(c_size_t)], [1, 2], 1, 0,
  "sw_status sw_pbt_save(const sw_pbt *pbt, void **bytes, size_t *n)")
F("sw_pbt_free", None, [c_void_p, c_size_t], [], 0, 0,
  "void sw_pbt_free(void *bytes, size_t n)")
F("sw_pbt_restore", c_int, [P(sw_pbt), c_void_p, c_size_t], [], 1, 0,
  "sw_status sw_pbt_restore(sw_pbt *pbt, const void *bytes, size_t n)")
F("sw_policy_changes", c_int, [c_char_p, P(sw_space), P(c_int)], [2], 1, 0,
  "sw_status sw_policy_changes(const char *path, const sw_space *space, int *n)")
F("sw_policy_change", c_int, [c_char_p, P(sw_space), c_int, P(c_int), P(c_double), P(c_double)], [3, 4, 5], 1, 0,
  "sw_status sw_policy_change(const char *path, const sw_space *space, int k, int *member, double *time, double *values)")
F("sw_es_create", c_int, [P(P(sw_es)), P(sw_optimizer), P(sw_es_opts)], [0], 1, 0,
  "sw_status sw_es_create(sw_es **out, sw_optimizer *optimizer, const sw_es_opts *opts)")
F("sw_es_destroy", None, [P(sw_es)], [], 0, 0,
  "void sw_es_destroy(sw_es *es)")
F("sw_es_sigma", sw_knob, [P(sw_es)], [], 0, 0,
  "sw_knob sw_es_sigma(sw_es *es)")
F("sw_es_generation", c_uint64, [P(sw_es)], [], 0, 0,
  "uint64_t sw_es_generation(const sw_es *es)")
F("sw_es_generation_set", c_int, [P(sw_es), c_uint64], [], 1, 0,
  "sw_status sw_es_generation_set(sw_es *es, uint64_t generation)")
F("sw_es_slices", c_uint32, [P(sw_es)], [], 0, 0,
  "uint32_t sw_es_slices(const sw_es *es)")
F("sw_es_rows", c_size_t, [P(sw_es)], [], 0, 0,
  "size_t sw_es_rows(const sw_es *es)")
F("sw_es_bytes", c_size_t, [P(sw_es)], [], 0, 0,
  "size_t sw_es_bytes(const sw_es *es)")
F("sw_es_evaluate", c_int, [P(sw_es), P(sw_exec), P(sw_run_args), c_uint32, c_char_p], [], 1, 0,
  "sw_status sw_es_evaluate(sw_es *es, sw_exec *exec, const sw_run_args *args, uint32_t slice, const char *fitness)")
F("sw_es_ask", c_int, [P(sw_es), c_uint32, c_size_t, P(sw_es_evaluation)], [3], 1, 0,
  "sw_status sw_es_ask(const sw_es *es, uint32_t slice, size_t e, sw_es_evaluation *out)")
F("sw_es_tell", c_int, [P(sw_es), c_uint32, c_uint32, c_float], [], 1, 0,
  "sw_status sw_es_tell(sw_es *es, uint32_t direction, uint32_t repeat, float fitness)")
F("sw_es_tell_slice", c_int, [P(sw_es), c_uint32, P(c_float), c_size_t], [], 1, 0,
  "sw_status sw_es_tell_slice(sw_es *es, uint32_t slice, const float *fitness, size_t n)")
F("sw_es_member", c_int, [P(sw_es), c_uint32, c_int, P(sw_model)], [], 1, 0,
  "sw_status sw_es_member(sw_es *es, uint32_t direction, int sign, sw_model *to)")
F("sw_es_step", c_int, [P(sw_es), P(sw_exec), P(sw_es_info)], [2], 1, 0,
  "sw_status sw_es_step(sw_es *es, sw_exec *exec, sw_es_info *out)")
F("sw_es_plan", c_int, [P(sw_es), P(sw_exec), P(sw_plan_info)], [2], 1, 0,
  "sw_status sw_es_plan(sw_es *es, sw_exec *exec, sw_plan_info *out)")
F("sw_zo_create", c_int, [P(P(sw_zo)), P(sw_model), P(sw_zo_opts)], [0], 1, 0,
  "sw_status sw_zo_create(sw_zo **out, sw_model *model, const sw_zo_opts *opts)")
F("sw_zo_destroy", None, [P(sw_zo)], [], 0, 0,
  "void sw_zo_destroy(sw_zo *zo)")
F("sw_zo_step", c_int, [P(sw_zo), P(sw_exec), P(sw_run_args), c_char_p, P(c_double)], [4], 1, 0,
  "sw_status sw_zo_step(sw_zo *zo, sw_exec *exec, const sw_run_args *args, const char *loss, double *out)")
F("sw_zo_steps", c_uint64, [P(sw_zo)], [], 0, 0,
  "uint64_t sw_zo_steps(const sw_zo *zo)")
F("sw_zo_not_finite", c_uint64, [P(sw_zo)], [], 0, 0,
  "uint64_t sw_zo_not_finite(const sw_zo *zo)")
F("sw_zo_save", c_int, [P(sw_zo), c_char_p], [], 1, 0,
  "sw_status sw_zo_save(const sw_zo *zo, const char *path)")
F("sw_zo_replay", c_int, [P(sw_model), P(sw_exec), c_char_p, sw_zo_progress_fn, c_void_p], [], 1, 0,
  "sw_status sw_zo_replay(sw_model *model, sw_exec *exec, const char *path, sw_zo_progress_fn *progress, void *user)")
F("sw_vertex_kind_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_vertex_kind_name(sw_vertex_kind kind)")
F("sw_genome_parse", c_int, [P(P(sw_genome)), c_char_p, c_size_t, c_char_p], [0], 1, 0,
  "sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes, const char *path)")
F("sw_genome_load", c_int, [P(P(sw_genome)), c_char_p], [0], 1, 0,
  "sw_status sw_genome_load(sw_genome **out, const char *path)")
F("sw_genome_save", c_int, [P(sw_genome), c_char_p], [], 1, 0,
  "sw_status sw_genome_save(const sw_genome *genome, const char *path)")
F("sw_genome_print", c_int, [P(sw_genome), P(c_char_p), P(c_size_t)], [1, 2], 1, 0,
  "sw_status sw_genome_print(const sw_genome *genome, char **text, size_t *bytes)")
F("sw_text_free", None, [P(c_char), c_size_t], [], 0, 0,
  "void sw_text_free(char *text, size_t bytes)")
F("sw_genome_copy", c_int, [P(P(sw_genome)), P(sw_genome)], [0], 1, 0,
  "sw_status sw_genome_copy(sw_genome **out, const sw_genome *from)")
F("sw_genome_destroy", None, [P(sw_genome)], [], 0, 0,
  "void sw_genome_destroy(sw_genome *genome)")
F("sw_genome_describe", c_int, [P(sw_genome), P(sw_genome_info)], [1], 1, 0,
  "sw_status sw_genome_describe(const sw_genome *genome, sw_genome_info *out)")
F("sw_genome_vertex", c_int, [P(sw_genome), c_uint32, P(sw_vertex)], [2], 1, 0,
  "sw_status sw_genome_vertex(const sw_genome *genome, uint32_t i, sw_vertex *out)")
F("sw_search_space_parse", c_int, [P(P(sw_search_space)), c_char_p, c_size_t, c_char_p], [0], 1, 0,
  "sw_status sw_search_space_parse(sw_search_space **out, const char *text, size_t bytes, const char *path)")
F("sw_search_space_load", c_int, [P(P(sw_search_space)), c_char_p], [0], 1, 0,
  "sw_status sw_search_space_load(sw_search_space **out, const char *path)")
F("sw_search_space_default", c_int, [P(P(sw_search_space)), P(sw_task)], [0], 1, 0,
  "sw_status sw_search_space_default(sw_search_space **out, const sw_task *task)")
F("sw_search_space_text", c_char_p, [P(sw_search_space)], [], 0, 0,
  "const char *sw_search_space_text(const sw_search_space *space)")
F("sw_search_space_destroy", None, [P(sw_search_space)], [], 0, 0,
  "void sw_search_space_destroy(sw_search_space *space)")
F("sw_genome_draw", c_int, [P(P(sw_genome)), P(sw_search_space), P(sw_task), c_uint64], [0], 1, 0,
  "sw_status sw_genome_draw(sw_genome **out, const sw_search_space *space, const sw_task *task, uint64_t seed)")
F("sw_net_create", c_int, [P(P(sw_net)), P(sw_genome), P(sw_net_opts)], [0], 1, 0,
  "sw_status sw_net_create(sw_net **out, const sw_genome *genome, const sw_net_opts *opts)")
F("sw_net_destroy", None, [P(sw_net)], [], 0, 0,
  "void sw_net_destroy(sw_net *net)")
F("sw_net_model", P(sw_model), [P(sw_net)], [], 0, 0,
  "sw_model *sw_net_model(sw_net *net)")
F("sw_net_optimizer", P(sw_optimizer), [P(sw_net)], [], 0, 0,
  "sw_optimizer *sw_net_optimizer(sw_net *net)")
F("sw_net_ready", c_int, [P(sw_net), P(sw_exec), c_uint64], [], 1, 0,
  "sw_status sw_net_ready(sw_net *net, sw_exec *exec, uint64_t seed)")
F("sw_net_genome", P(sw_genome), [P(sw_net)], [], 0, 0,
  "const sw_genome *sw_net_genome(const sw_net *net)")
F("sw_net_step", None, [P(sw_ctx), c_void_p], [], 0, 0,
  "void sw_net_step(sw_ctx *ctx, void *net)")
F("sw_genome_price", c_int, [P(sw_genome), P(sw_exec), P(sw_net_opts), c_int, P(sw_price)], [4], 1, 0,
  "sw_status sw_genome_price(const sw_genome *genome, sw_exec *exec, const sw_net_opts *opts, sw_dtype input, sw_price *out)")
F("sw_net_inherit", c_int, [P(sw_net), P(sw_net), P(sw_net), c_uint64], [], 1, 0,
  "sw_status sw_net_inherit(sw_net *to, const sw_net *a, const sw_net *b, uint64_t seed)")
F("sw_gradient_hook", None, [P(sw_ctx), P(sw_model), sw_gradient_fn, c_void_p], [], 0, 0,
  "void sw_gradient_hook(sw_ctx *ctx, sw_model *model, sw_gradient_fn *fn, void *user)")
F("sw_mutation_kind_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_mutation_kind_name(sw_mutation_kind kind)")
F("sw_mutations_default", P(sw_mutation), [P(c_size_t)], [0], 0, 0,
  "const sw_mutation *sw_mutations_default(size_t *n)")
F("sw_genome_mutate", c_int, [P(P(sw_genome)), P(sw_genome), P(sw_mutate_opts)], [0], 1, 0,
  "sw_status sw_genome_mutate(sw_genome **out, const sw_genome *parent, const sw_mutate_opts *opts)")
F("sw_genome_crossover", c_int, [P(P(sw_genome)), P(P(sw_genome)), P(sw_genome), P(sw_genome), P(sw_crossover_opts)], [0, 1], 1, 0,
  "sw_status sw_genome_crossover(sw_genome **out_a, sw_genome **out_b, const sw_genome *a, const sw_genome *b, const sw_crossover_opts *opts)")
F("sw_select", c_int, [P(c_double), c_size_t, P(sw_selection), c_size_t, c_uint64, P(c_uint32), P(c_int), P(c_size_t)], [5, 6, 7], 1, 0,
  "sw_status sw_select(const double *fitness, size_t n, const sw_selection *selections, size_t n_selections, uint64_t seed, uint32_t *out, int *kept, size_t *n_out)")
F("sw_pareto", c_int, [P(c_double), c_size_t, c_size_t, P(c_uint32), P(c_double)], [3, 4], 1, 0,
  "sw_status sw_pareto(const double *objectives, size_t n, size_t m, uint32_t *rank, double *crowding)")
F("sw_fitness_kind_name", c_char_p, [c_int], [], 0, 0,
  "const char *sw_fitness_kind_name(sw_fitness_kind kind)")
F("sw_evolution_create", c_int, [P(P(sw_evolution)), P(sw_exec), P(sw_evolution_opts)], [0], 1, 0,
  "sw_status sw_evolution_create(sw_evolution **out, sw_exec *exec, const sw_evolution_opts *opts)")
F("sw_evolution_destroy", None, [P(sw_evolution)], [], 0, 0,
  "void sw_evolution_destroy(sw_evolution *evolution)")
F("sw_evolution_advance", c_int, [P(sw_evolution), P(sw_evolve_progress)], [1], 1, 0,
  "sw_status sw_evolution_advance(sw_evolution *evolution, sw_evolve_progress *out)")
F("sw_evolution_count", c_uint32, [P(sw_evolution)], [], 0, 0,
  "uint32_t sw_evolution_count(const sw_evolution *evolution)")
F("sw_evolution_member", c_int, [P(sw_evolution), c_uint32, P(sw_candidate)], [2], 1, 0,
  "sw_status sw_evolution_member(sw_evolution *evolution, uint32_t i, sw_candidate *out)")
F("sw_evolution_best", c_int, [P(sw_evolution), P(sw_candidate)], [1], 1, 0,
  "sw_status sw_evolution_best(sw_evolution *evolution, sw_candidate *out)")
F("sw_net_copy", c_int, [P(P(sw_net)), P(sw_evolution), c_uint32], [0], 1, 0,
  "sw_status sw_net_copy(sw_net **out, sw_evolution *evolution, uint32_t i)")
F("sw_evolution_used", c_int, [P(sw_evolution), P(sw_evolution_memory)], [1], 1, 0,
  "sw_status sw_evolution_used(const sw_evolution *evolution, sw_evolution_memory *out)")
F("sw_evolution_resume", c_int, [P(sw_evolution), P(c_int)], [1], 1, 0,
  "sw_status sw_evolution_resume(sw_evolution *evolution, int *found)")
F("sw_evolution_rebuild", c_int, [P(sw_evolution), c_uint64, P(P(sw_net))], [2], 1, 0,
  "sw_status sw_evolution_rebuild(sw_evolution *evolution, uint64_t id, sw_net **out)")
F("sw_type_elements", c_int64, [P(sw_type)], [], 0, 0,
  "int64_t sw_type_elements(const sw_type *type)")
F("sw_type_bytes", c_size_t, [P(sw_type)], [], 0, 0,
  "size_t sw_type_bytes(const sw_type *type)")
F("sw_op_register", c_int, [P(sw_op_desc), P(c_uint32)], [1], 1, 0,
  "sw_status sw_op_register(const sw_op_desc *desc, uint32_t *id)")
F("sw_op_apply", sw_value, [P(sw_ctx), c_uint32, P(sw_value), c_int, c_void_p], [], 0, 0,
  "sw_value sw_op_apply(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in, const void *attrs)")
F("sw_op_apply_all", sw_value, [P(sw_ctx), c_uint32, P(sw_value), c_int, c_void_p, P(sw_value)], [5], 0, 0,
  "sw_value sw_op_apply_all(sw_ctx *ctx, uint32_t id, const sw_value *in, int n_in, const void *attrs, sw_value *outs)")
F("sw_op_at", P(sw_op_desc), [c_uint32], [], 0, 0,
  "const sw_op_desc *sw_op_at(uint32_t id)")
F("sw_op_check", c_int, [c_uint32, C(None, None, None, c_void_p, c_char_p), c_void_p, P(c_uint32), P(c_uint32)], [3, 4], 1, 0,
  "sw_status sw_op_check(uint32_t id, void (*report)(void *to, const char *line), void *to, uint32_t *n_checks, uint32_t *n_failures)")
F("sw_checkpoint_state", c_int, [P(sw_checkpoint), P(sw_checkpoint_info)], [1], 1, 0,
  "sw_status sw_checkpoint_state(sw_checkpoint *checkpoint, sw_checkpoint_info *out)")
F("sw_pbt_look", c_int, [P(sw_pbt), c_int, P(sw_pbt_member)], [2], 1, 0,
  "sw_status sw_pbt_look(const sw_pbt *pbt, int member, sw_pbt_member *out)")
F("sw_genome_look", c_int, [P(sw_genome), P(sw_genome_info)], [1], 1, 0,
  "sw_status sw_genome_look(const sw_genome *genome, sw_genome_info *out)")
F("sw_search_space_draw", c_int, [P(sw_search_space), P(sw_task), c_uint64, P(P(sw_genome))], [3], 1, 0,
  "sw_status sw_search_space_draw(const sw_search_space *space, const sw_task *task, uint64_t seed, sw_genome **out)")
F("sw_evolution_net", c_int, [P(sw_evolution), c_uint32, P(P(sw_net))], [2], 1, 0,
  "sw_status sw_evolution_net(sw_evolution *evolution, uint32_t i, sw_net **out)")
