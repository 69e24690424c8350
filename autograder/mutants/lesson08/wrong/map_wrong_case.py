# Right words in the wrong case: these are not the names in the source.
source_objects = {
    "conditional_acceptance": "_RESOLVE_SPEC_V2_TOKENS",
    "draft_ms": "DRAFT_FORWARD",
    "verify_ms": "RUN_EAGLE_VERIFY",
    "overhead_ms": "EAGLE_SAMPLE",
    "extra_memory_gb": "ALLOC_FOR_SPEC_DECODE",
    "kv_rollback": "MOVE_ACCEPT_TOKENS_TO_TARGET_KVCACHE",
}
