# Right method names in classes that do not have them.
source_objects = {
    "conditional_acceptance": "Scheduler.unconditional_to_conditional_rates",
    "draft_ms": "Scheduler.propose",
    "verify_ms": "Foo.execute_model",
    "overhead_ms": "LlamaModel.rejection_sample",
    "extra_memory_gb": "Foo.allocate_slots",
    "kv_rollback": "Foo.update_from_output",
}
