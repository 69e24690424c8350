# Describes the objects instead of naming them.
source_objects = {
    "conditional_acceptance": "the metrics class",
    "draft_ms": "the draft worker",
    "verify_ms": "the target model",
    "overhead_ms": "sampling",
    "extra_memory_gb": "the KV pool",
    "kv_rollback": "the scheduler",
}
