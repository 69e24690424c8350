# One symbol for every field.
source_objects = {
    "conditional_acceptance": "run_eagle_verify",
    "draft_ms": "run_eagle_verify",
    "verify_ms": "run_eagle_verify",
    "overhead_ms": "run_eagle_verify",
    "extra_memory_gb": "run_eagle_verify",
    "kv_rollback": "run_eagle_verify",
}
