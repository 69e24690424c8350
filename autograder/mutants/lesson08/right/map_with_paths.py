# Right: with path, class, brackets or backticks around the name.
source_objects = {
    "conditional_acceptance": "vllm/v1/spec_decode/metrics.py::SpecDecodingStats",
    "draft_ms": "sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.draft",
    "verify_ms": "`run_eagle_verify()`",
    "overhead_ms": " eagle_utils.py:eagle_sample ",
    "extra_memory_gb": "alloc_for_spec_decode()",
    "kv_rollback": "vllm/v1/core/sched/scheduler.py#Scheduler.update_from_output",
}
