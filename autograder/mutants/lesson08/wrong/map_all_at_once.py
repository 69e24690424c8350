# Lists every name it knows in every field.
source_objects = {
    "conditional_acceptance": "_resolve_spec_v2_tokens",
    "draft_ms": "EagleDraftWorker.draft_forward",
    "verify_ms": "run_eagle_verify",
    "overhead_ms": "eagle_sample",
    "extra_memory_gb": "alloc_for_spec_decode",
    "kv_rollback": "move_accept_tokens_to_target_kvcache",
}
names = ", ".join(source_objects.values())
source_objects = dict.fromkeys(source_objects, names)
