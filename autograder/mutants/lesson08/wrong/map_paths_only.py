# Names files, not objects.
source_objects = {
    "conditional_acceptance": "metrics.py",
    "draft_ms": "eagle_worker_v2.py",
    "verify_ms": "eagle_worker_common.py",
    "overhead_ms": "eagle_utils.py",
    "extra_memory_gb": "allocation.py",
    "kv_rollback": "scheduler.py",
}
