"""The text models that the installed Transformers has, small and with random weights."""

import copy

# what the fields of a config become, by name
SIZES = {
    64: "hidden_size hidden_size_global d_model n_embd dim emb_dim embedding_size embedding_dim input_embedding_size word_embed_proj_dim "
    "output_embedding_size lru_width true_hidden_size d_latents hc_lowrank backbone_hidden_size pooler_hidden_size "
    "embedding_rank ple_embed_dim router_hidden_size linear_attn_dim pronunciation_embed_dim shape_embed_dim",
    96: "intermediate_size ffn_dim d_ff d_inner dff dim_ff hidden_dim encoder_ffn_dim decoder_ffn_dim ffn_hidden_size "
    "feed_forward_size intermediate_size_mlp dense_intermediate_size n_inner",
    32: "moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size expert_ffn_hidden_size "
    "moe_shared_expert_intermediate_size q_lora_rank lora_rank_query kv_lora_rank o_lora_rank prompt_mid_dim "
    "time_step_rank mamba_dt_rank conv_dim_in",
    16: "head_dim d_kv attention_head_size qk_rope_head_dim qk_nope_head_dim v_head_dim index_head_dim dim_head d_head "
    "swa_head_dim global_head_dim linear_key_head_dim linear_value_head_dim linear_head_dim mamba_head_dim mamba_d_head "
    "mamba_headdim mamba_d_state ssm_state_size state_size d_rel num_latents adapter_rank laurel_rank query_pre_attn_scalar "
    "hidden_size_per_layer_input prompt_length gated_norm_rank swa_v_head_dim local_radius lsh_attn_chunk_length "
    "local_attn_chunk_length mamba_chunk_size chunk_size conv_dim attention_head_dim",
    8: "sliding_window sliding_window_size attention_chunk_size attention_window attention_window_size local_attention "
    "keep_window_size window_size num_mel_bins swa_window_size global_block_size mamba_n_heads mamba_num_heads "
    "index_topk expert_capacity",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads num_experts n_routed_experts num_local_experts moe_num_experts "
    "swa_num_attention_heads linear_num_value_heads linear_num_heads num_self_attention_heads num_cross_attention_heads "
    "num_query_groups index_block_size heads_per_ngram zero_expert_num",
    2: "num_key_value_heads num_kv_heads num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_decoder_layers num_encoder_layers num_experts_per_tok num_experts_per_token moe_k moe_topk top_k_experts "
    "swa_num_key_value_heads linear_num_key_heads index_n_heads mamba_n_groups n_groups depth num_layers_per_stack "
    "speech_encoder_layers t2u_encoder_layers t2u_decoder_layers num_self_attends_per_block index_topk_blocks "
    "num_global_key_value_heads num_filters",
    1: "n_group topk_group n_shared_experts num_shared_experts moe_num_shared_experts first_k_dense_replace mamba_ngroups "
    "num_nextn_predict_layers no_rope_layer_interval num_expert_group num_mem_blocks num_dense_layers moe_layer_start_index "
    "max_window_layers",
    128: "vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size t2u_vocab_size vocab_size_per_layer_input "
    "encoder_hash_byte_group_vocab entity_vocab_size pronunciation_vocab_size shape_vocab_size audio_vocab_size char_vocab_size unit_hifi_gan_vocab_size",
    512: "max_position_embeddings n_positions max_seq_len n_ctx max_encoder_position_embeddings context_length rel_extent "
    "max_decoder_position_embeddings max_source_positions max_target_positions",
    3: "image_token_id image_token_index audio_token_id audio_token_index video_token_id video_token_index",
}
BY_NAME = {name: size for size, names in SIZES.items() for name in names.split()}
TOKENS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}


def kinds():
    """The families: model type, kind, and name of the class."""
    from transformers.models.auto import modeling_auto as auto

    tables = {
        "causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "masked": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        "encoder": auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
    }
    for kind, table in tables.items():
        for family, names in table.items():
            yield family, kind, names if isinstance(names, str) else names[0]


def small(default, further=None):
    """A config like the default one of its class, in small."""
    from transformers import PreTrainedConfig

    fields = {}
    for name, value in vars(default).items():
        if isinstance(value, PreTrainedConfig):
            fields[name] = small(value)
        elif name in TOKENS:
            fields[name] = TOKENS[name]
        elif name == "sliding_window" and value is None:
            fields[name] = BY_NAME[name]
        elif name == "use_sliding_window":
            fields[name] = True
        elif isinstance(value, int) and not isinstance(value, bool) and name in BY_NAME:
            fields[name] = BY_NAME[name]
    kinds_of_layers = list(dict.fromkeys(getattr(default, "layer_types", None) or ()))
    is_derived = isinstance(getattr(type(default), "layer_types", None), property)
    if len(kinds_of_layers) > 1 and not is_derived:
        fields["layer_types"] = kinds_of_layers
        fields["num_hidden_layers"] = len(kinds_of_layers)
    if "kv_lora_rank" in fields or "q_lora_rank" in fields:
        fields["num_key_value_heads"] = 4
    fields.update(further or {})
    return type(default)(**fields)


def config(family, kind, name):
    """A small config of a family for a class of models."""
    import transformers
    from transformers import CONFIG_MAPPING

    if family == "encoder-decoder":
        parts = [small(CONFIG_MAPPING["bert"]()) for _ in range(2)]
        return transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
            *parts, decoder_start_token_id=1, pad_token_id=0
        )
    cls, takes = CONFIG_MAPPING[family], getattr(transformers, name).config_class
    # of some families the class is that of a part
    default = cls() if takes is None or issubclass(cls, takes) else takes()
    of = small(default, SPECIAL.get(family))
    if family == "dbrx":
        of.attn_config.rope_theta, of.attn_config.clip_qkv = 10000.0, 8.0
    if kind == "encoder" and family == "t5gemma":
        of.is_encoder_decoder = False
    if kind == "causal" and getattr(of, "is_decoder", None) is False:
        of.is_decoder = True
    return of


def build(name, of, attention, device):
    """A model of a class of Transformers, with an attention by name."""
    import torch
    import transformers

    torch.manual_seed(0)
    cls = getattr(transformers, name)
    how = {"attn_implementation": attention, "dtype": torch.float32}
    return cls._from_config(copy.deepcopy(of), experts_implementation="eager", **how).to(device).eval()


def randomise(model):
    """Weights that matter: those of a transformer's usual size are much enlarged, sinks are not 0."""
    import torch

    torch.manual_seed(1)
    for name, values in model.named_parameters():
        if "sink" in name:
            torch.nn.init.normal_(values.data)
        elif values.dim() >= 2 and 0.005 < values.std().item() < 0.06:
            values.data *= values.shape[-1] ** -0.5 / values.std()


ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 2, 4]}
# fields of some families that have no default, or that depend on each other
SPECIAL = {
    "bamba": {"attn_layer_indices": [1], "mamba_d_head": 16},
    "cohere_compass_text": {"rope_parameters": {of: ROPE for of in ("full_attention", "sliding_attention")}},
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_method": "greedy"},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "esm": {"vocab_size": 128},
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_head": 16, "mamba_d_ssm": 128},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": 2 * ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 1,
        "activation_sparsity_pattern": 4 * [0.0],
        "intermediate_size": 96,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
    # a cache has a layer for each cycle
    "hrm_text": {"num_hidden_layers": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "mamba2": {"head_dim": 32},
    "ministral": {"head_dim": 16},
    "mobilebert": {"intra_bottleneck_size": 64},
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp": {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 8},
    "recurrent_gemma": {"num_hidden_layers": 3, "block_types": ["recurrent", "attention"]},
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"]},
    "xlstm": {"qk_dim_factor": 1.0},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {"layer_types": 2 * ["linear_attention", "hybrid"], "num_hidden_layers": 4},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
    "zaya": {"num_experts_per_tok": 1},
}
SPECIAL["qwen4_exp_text"] = SPECIAL["qwen4_exp"] = SPECIAL["qwen4_exp"] | {"indexer_compress_ratio": 2}
NOT_BUILT = {
    "gemma3n": "its images need timm; `gemma3n_text` is its text model",
    "gemma4_assistant": "it continues hidden states of another model",
    "gemma4_unified_assistant": "it continues hidden states of another model",
    "voxtral_realtime": "it needs audio beside tokens",
}
