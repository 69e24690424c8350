# Names rollback_tree_kv, which exists in neither engine.
source_objects = {
    "conditional_acceptance": "_resolve_spec_v2_tokens",
    "draft_ms": "EagleDraftWorker.draft_forward",
    "verify_ms": "run_eagle_verify",
    "overhead_ms": "eagle_sample",
    "extra_memory_gb": "alloc_for_spec_decode",
    "kv_rollback": "rollback_tree_kv",
}
