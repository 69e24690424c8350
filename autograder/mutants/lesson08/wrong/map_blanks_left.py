# Nothing is filled in.
source_objects = {
    "conditional_acceptance": "______",
    "draft_ms": "______",
    "verify_ms": "______",
    "overhead_ms": "______",
    "extra_memory_gb": "______",
    "kv_rollback": "______",
}
