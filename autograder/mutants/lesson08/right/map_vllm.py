# Right: objects of vLLM.
source_objects = {
    "conditional_acceptance": "unconditional_to_conditional_rates",
    "draft_ms": "SpecDecodeBaseProposer.propose",
    "verify_ms": "GPUModelRunner.execute_model",
    "overhead_ms": "rejection_sample",
    "extra_memory_gb": "KVCacheManager.allocate_slots",
    "kv_rollback": "Scheduler.update_from_output",
}
