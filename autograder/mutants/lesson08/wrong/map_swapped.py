# Draft and verify are swapped.
source_objects = {
    "conditional_acceptance": "_resolve_spec_v2_tokens",
    "draft_ms": "run_eagle_verify",
    "verify_ms": "EagleDraftWorker.draft_forward",
    "overhead_ms": "eagle_sample",
    "extra_memory_gb": "alloc_for_spec_decode",
    "kv_rollback": "move_accept_tokens_to_target_kvcache",
}
